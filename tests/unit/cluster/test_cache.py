"""A key changes exactly when what it stands for changes."""

from pathlib import Path

import pytest

from e2e.cluster import build, cache


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_same_content_has_the_same_key_wherever_it_lies(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", a_main="x", b_main="y")
    two = tree(tmp_path / "two", b_main="y", a_main="x")
    assert cache.tree_key(one, ["*/main"]) == cache.tree_key(two, ["*/main"])


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a_main": "X", "b_main": "y"}, id="a file's content"),
        pytest.param({"c_main": "x", "b_main": "y"}, id="a file's name"),
        pytest.param({"a_main": "x"}, id="a file less"),
        pytest.param({"a_main": "xy", "b_main": ""}, id="text that moved from one file to another"),
    ],
)
def test_any_change_of_the_sources_changes_the_key(files: dict[str, str], tmp_path: Path) -> None:
    before = tree(tmp_path / "before", a_main="x", b_main="y")
    after = tree(tmp_path / "after", **files)
    assert cache.tree_key(before, ["*/main"]) != cache.tree_key(after, ["*/main"])


def test_what_does_not_match_does_not_count(tmp_path: Path) -> None:
    before = cache.tree_key(tree(tmp_path, a_main="x"), ["*/main"])
    assert cache.tree_key(tree(tmp_path, a_notes="n"), ["*/main"]) == before


def test_the_borders_between_parts_count() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc")


def test_the_cache_follows_the_desktop_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "steelyard"


def test_the_daemons_carry_the_version_of_their_module() -> None:
    module = (build.SOURCES / "go.mod").read_text()
    version = build.KUBERNETES.ldflags.split("gitVersion=")[1].split()[0]
    assert f"k8s.io/kubernetes {version}\n" in module
