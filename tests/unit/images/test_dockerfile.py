"""The stages of a Dockerfile and their keys: an image is rebuilt exactly when what it is made of changed."""

import pytest

from e2e.images import ROOT, build, dockerfile

ARGUMENTS = {"BASE_IMAGE": "debian:1", "ACCELERATOR": "cpu", "CPU_WHEELS": "abc"}
OURS = ("operator", "worker", "sampler", "trainer")
TEXT = """\
ARG BASE_IMAGE=python
FROM ${BASE_IMAGE} AS base
RUN useradd steelyard
# A comment.
FROM base AS tools
RUN install

FROM base AS packages-cpu
COPY lock requirements.txt ./
RUN --mount=type=bind,from=tools,target=/tools --mount=type=bind,from=wheels,target=/wheels install

FROM tools AS code
COPY src src

FROM packages-${ACCELERATOR} AS app
COPY --from=code /code /opt
"""


def own() -> dict[str, dockerfile.Stage]:
    return dockerfile.parse((ROOT / "Dockerfile").read_text(), ARGUMENTS)


def test_a_stage_needs_what_it_starts_from_copies_from_and_mounts() -> None:
    stages = dockerfile.parse(TEXT, ARGUMENTS)
    assert {name: stage.needs for name, stage in stages.items()} == {
        "base": (),
        "tools": ("base",),
        "packages-cpu": ("base", "tools"),
        "code": ("tools",),
        "app": ("packages-cpu", "code"),
    }


def test_a_stage_reads_the_files_it_copies_from_the_context() -> None:
    stages = dockerfile.parse(TEXT, ARGUMENTS)
    assert stages["packages-cpu"].files == ("lock", "requirements.txt")
    assert stages["code"].files == ("src",)
    assert stages["app"].files == ()


def test_build_arguments_are_filled_in_and_unknown_variables_stay() -> None:
    stages = dockerfile.parse("FROM ${BASE_IMAGE} AS base\nRUN echo ${HOME}", ARGUMENTS)
    assert stages["base"].text == "FROM debian:1 AS base\nRUN echo ${HOME}"


def test_a_stage_that_adds_nothing_is_an_alias() -> None:
    aliases = {stage.name: stage.needs for stage in own().values() if stage.is_alias}
    assert aliases == {"sampler-cpu": ("learning-cpu",), "trainer-cpu": ("learning-cpu",)}


def test_what_a_target_needs_comes_before_it_and_once() -> None:
    names = [stage.name for stage in dockerfile.order(dockerfile.parse(TEXT, ARGUMENTS), "app")]
    assert names == ["base", "tools", "packages-cpu", "code", "app"]


@pytest.mark.parametrize("target", build.TARGETS)
def test_no_test_image_is_built_from_a_cuda_stage(target: str) -> None:
    assert not [stage.name for stage in dockerfile.order(own(), target) if "cuda" in stage.name]


@pytest.mark.parametrize("target", ["sampler", "trainer"])
def test_an_image_for_gpus_is_made_of_the_lock_alone(target: str) -> None:
    stages = dockerfile.parse((ROOT / "Dockerfile").read_text(), {"BASE_IMAGE": "debian:1", "ACCELERATOR": "cuda"})
    names = [stage.name for stage in dockerfile.order(stages, target)]
    assert f"{target}-cuda" in names
    assert "learning-cpu" not in names
    assert "--require-hashes" in stages[f"{target}-cuda"].text


@pytest.mark.parametrize("target", build.TARGETS)
def test_every_image_runs_as_the_same_unprivileged_user(target: str) -> None:
    assert "USER 65532:65532" in own()[target].text


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        pytest.param("operator", {"code", *OURS}, id="our own code: the last layers"),
        pytest.param("requirements-cpu.txt", {"learning-cpu", "sampler", "trainer"}, id="CPU packages: who learns"),
        pytest.param("e2e/models/tiny", {"worker", "sampler", "trainer"}, id="the example's model: who reads it"),
        pytest.param("tests", set[str](), id="what no image holds: nothing"),
    ],
)
def test_a_change_rebuilds_only_what_is_made_of_it(changed: str, rebuilt: set[str]) -> None:
    before = dockerfile.keys(own(), lambda path: path)
    after = dockerfile.keys(own(), lambda path: f"{path}, changed" if path == changed else path)
    differ = {name for name in before if before[name] != after[name]}
    aliases = {"sampler-cpu", "trainer-cpu"}
    assert differ - aliases == rebuilt


def test_other_wheels_make_another_learning_image_and_leave_the_operator_alone() -> None:
    text = (ROOT / "Dockerfile").read_text()
    old, new = (
        dockerfile.keys(dockerfile.parse(text, {**ARGUMENTS, "CPU_WHEELS": wheels}), lambda path: path)
        for wheels in ("one", "two")
    )
    assert old["sampler"] != new["sampler"]
    assert old["operator"] == new["operator"]


def test_a_comment_changes_no_key() -> None:
    without = TEXT.replace("# A comment.\n", "")
    keys = [dockerfile.keys(dockerfile.parse(text, ARGUMENTS), lambda path: path) for text in (TEXT, without)]
    assert keys[0] == keys[1]


def test_the_dockerignore_lets_through_what_is_copied_and_nothing_else() -> None:
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {path for stage in own().values() for path in stage.files}
    assert copied == let_through
