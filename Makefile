# `make help` lists every command. Two do all set-up on a fresh Debian machine: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# What sudo and su leave out: where root's programs are, and where Go's own installation puts it.
export PATH := $(PATH):/usr/sbin:/sbin:/usr/local/go/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/steelyard
UV_VERSION := 0.13.9
UV := $(CACHE)/uv-$(UV_VERSION)/bin/uv
PY := .venv/bin/python
# The CPU wheels are made for one Python, which uv fetches where the system has another.
export UV_PYTHON := 3.11
PYTEST = $(PY) -m pytest --junitxml=build/junit/$@.xml
GENERATORS := steelyard.api.generate monitoring.generate gitops.customizations steelyard.cli.reference
LEARNING_RATE ?=
# One thread a process: torch and BLAS otherwise fight over the machine's cores, and sums change with the thread count.
export OMP_NUM_THREADS ?= 1
# Bytecode is kept whatever the shell says: without it each process that a test starts compiles its imports anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install programs images generate manifests lint docs unit property integration screenshots e2e e2e-install test demo demo-down verify bench bench-audit bench-planner bench-twin

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

$(UV):
	@python3 -c 'import ensurepip' 2>/dev/null || (apt-get update -qq && apt-get install -qq -y python3-venv)
	@python3 -m venv $(CACHE)/uv-$(UV_VERSION) && $(CACHE)/uv-$(UV_VERSION)/bin/pip install -q uv==$(UV_VERSION)

.venv/.installed: $(UV) pyproject.toml uv.lock requirements-cpu.txt
	@$(UV) sync -q --locked --inexact --extra worker --extra cli
	@PATH=$(dir $(UV)):$$PATH $(PY) -m e2e.images venv
	@touch $@

install: .venv/.installed ## the development environment in .venv, CPU torch and vLLM included

generate: install ## rewrite what is generated from code: CRDs, references, dashboards, alerts, Argo CD's data
	@for of in $(GENERATORS); do $(PY) -m $$of || exit 1; done

manifests: install ## rewrite what manifests/ has of the chart (needs Go)
	@$(PY) -m e2e.manifests

verify: install ## fail when a generated file is not what the code says
	@for of in $(GENERATORS); do $(PY) -m $$of --check || exit 1; done

lint: install ## ruff, mypy strict, the import rules of the house
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy && .venv/bin/lint-imports

docs: install ## the documentation as a site in build/site; fails on a broken link, needs no network
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build   # not --quiet: mkdocs would not count its warnings either

unit: install ## fast tests: no network, no root, no cluster
	@$(PYTEST) -n 3 --dist worksteal tests/unit tests/property/test_bad_input.py   # some wait: more than one a core

property: install ## the core on thousands of generated cases and on simulated pipelines
	@$(PYTEST) -n 2 --dist worksteal --hypothesis-profile=thorough --timeout=1800 tests/property

# Nothing heavy is built beside a test, or beside another build.
programs: install
	@$(PY) -m e2e.cluster programs

images: programs
	@$(PY) -m e2e.images build > /dev/null

integration: programs ## the operator on a real API server, the workers on a real NATS (needs root and Go)
	@$(PYTEST) -n 3 --dist worksteal tests/integration

e2e: images ## a real cluster with real containers, one long job, every fault (needs root and Go)
	@$(PYTEST) -n 2 e2e/scenarios

e2e-install: images ## the part of it about Helm, kustomize and the README's commands
	@$(PYTEST) e2e/scenarios/test_install.py

test: install ## everything, from a clean checkout; ends with the count
	@rm -rf build/junit; failed=0; \
	for suite in lint verify unit property integration screenshots e2e; do \
	  echo "== $$suite"; $(MAKE) --no-print-directory $$suite || { echo "== $$suite FAILED"; failed=1; }; done; \
	$(PY) -m e2e.summary build/junit || failed=1; exit $$failed

screenshots: install ## the pages in a real browser: light and dark, wide and on a phone, into build/screenshots
	@$(PYTEST) e2e/screenshots

demo: install ## the main job on the embedded cluster, live in this terminal (LEARNING_RATE=0 shows the control run)
	@$(PY) -m e2e.demo $(if $(LEARNING_RATE),--learning-rate $(LEARNING_RATE))

demo-down: install ## remove the demo's cluster: no process, mount, interface or iptables rule stays
	@$(PY) -m e2e.cluster down --name demo

bench: install bench-planner bench-audit ## every benchmark; each writes its last result to benchmarks/results
	@for b in benchmarks/*.py; do echo "== $$b"; $(PY) $$b || exit 1; done

bench-twin: install ## Steelyard against what users would pick instead, simulated: five profiles, seeds 1-5
	@$(PY) benchmarks/twin.py

bench-audit: install ## an audit of a day at 15 s resolution, from a Prometheus with a made-up day (needs Go)
	@$(PY) -m benchmarks.audit

bench-planner: install ## the cold-start planner beside Libra's, time and judged plans (LIBRA=its source runs it here too)
	@$(PY) -m benchmarks.planner
