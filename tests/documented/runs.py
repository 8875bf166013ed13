"""Which test runs a command that a page shows in a block, or why none does."""

from __future__ import annotations

from collections.abc import Sequence

from tests.documented.pages import Line, lines

ON_A_SERVER = "tests/integration/cli/test_documented.py::test_the_pages_commands_work_on_an_api_server"
RENDERED = "tests/integration/chart/test_documented.py::test_the_chart_takes_the_values_that_a_page_shows"
README = "e2e/scenarios/test_install.py::test_the_readme_leads_from_nothing_to_an_explained_decision"
CONTAINERS = "e2e/scenarios/test_job.py::test_a_user_follows_trajectories_reads_logs_and_asks_for_help"
ITSELF = "nowhere: it starts tests, benchmarks or the demo"

WHOLE = {
    "kubectl apply --server-side --kustomize manifests/overlays/cluster": (
        "tests/integration/operator/conftest.py::credentials"
    ),
    "kubectl apply --filename manifests/examples/calculator.yaml": README,
    "helm install steelyard charts/steelyard --namespace steelyard-system --create-namespace --wait": README,
}
"""Command -> `file::function`."""

BEGINNINGS = {
    "kubectl apply -f gitops": "nowhere: no suite installs Argo CD or Flux; docs/gitops.md says so",
    "steelyard logs": CONTAINERS,
    "steelyard trace": CONTAINERS,
    "steelyard rehearse": (
        "e2e/scenarios/test_rehearsal.py::test_every_size_comes_to_its_end_with_all_that_was_to_be_measured"
    ),
    "helm test": "e2e/scenarios/test_install.py::test_the_release_says_that_it_works",
    "helm uninstall": "e2e/scenarios/test_install.py::test_an_uninstall_keeps_jobs_and_their_workers",
    "helm": RENDERED,
    "make": ITSELF,
    ".venv/bin/pytest": ITSELF,
    "uvx pre-commit": "nowhere: what it runs is what `make lint` runs",
    "pip install": "nowhere: it asks a package index; the images are built of the same wheel",
    "python manifests/examples/own/try_it.py": (
        "tests/unit/test_own_example.py::test_an_episode_is_played_by_somebody_who_types"
    ),
    "python -m e2e.cluster": "e2e/scenarios/test_cluster.py::test_down_leaves_nothing_of_the_cluster",
    "export KUBECONFIG": "nowhere: the program in it is run with `python -m e2e.cluster`",
}
"""Beginning of a command -> `file::function`, or `nowhere: why`. The longest beginning that fits counts."""


def run_by(words: Sequence[str]) -> str:
    """Where this command is run. Of kubectl and steelyard, whatever is not listed is run on an API server."""
    command = " ".join(words[1:] if words[:2] == ["kubectl", "steelyard"] else words)
    if command in WHOLE:
        return WHOLE[command]
    fits = [start for start in BEGINNINGS if command.startswith(start)]
    if fits:
        return BEGINNINGS[max(fits, key=len)]
    assert words[0] in ("kubectl", "steelyard"), f"{command}: tests/documented/runs.py does not say what runs it"
    return ON_A_SERVER


def lines_run_by(place: str) -> list[Line]:
    """Lines of blocks with a command that this test runs; what it prints may be filtered."""
    return [
        line
        for line in lines()
        if not line.in_prose and place in {run_by(words) for words in line.commands() if words[0] != "grep"}
    ]
