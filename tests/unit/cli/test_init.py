"""`steelyard init`: a job that is valid at once, teaches what it leaves out, and is never written over another file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from steelyard.api import AgenticRLJob, Stage
from steelyard.cli import app

MINIMAL = {"--model": "model", "--env": "recipe:environment", "--reward": "recipe:reward", "--tasks": "tasks"}


def run(**changes: str) -> tuple[int, str, str]:
    options = {**MINIMAL, **{f"--{name.replace('_', '-')}": value for name, value in changes.items()}}
    arguments = [word for option in options.items() for word in option]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["init", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def job(**changes: str) -> AgenticRLJob:
    code, out, err = run(**changes)
    assert code == 0, err
    return AgenticRLJob.model_validate(yaml.safe_load(out))


def test_it_is_a_job_of_ten_lines_below_its_comments() -> None:
    _, out, err = run(gpus="4")
    lines = [line for line in out.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= 13
    assert out.endswith("\n")
    made = AgenticRLJob.model_validate(yaml.safe_load(out))
    assert made.spec.budget.gpus == 4
    assert made.spec.initial_allocation.gpus(made.spec.gpu_prices) == 2
    assert "kubectl create configmap recipe --from-file=recipe.py" in err


def test_what_it_calls_defaults_are_the_defaults() -> None:
    _, out, _ = run()
    spec = yaml.safe_load(out)["spec"]
    named = {
        field: yaml.safe_load(value)
        for field, value in re.findall(r"^  # (algorithm|checkpoints|scaling): (\{.*\})(?: +#.*)?$", out, re.MULTILINE)
    }
    assert len(named) == 3
    named["algorithm"].pop("args")  # the trainer's own
    plain = AgenticRLJob.model_validate({**yaml.safe_load(out), "spec": spec})
    spelled = AgenticRLJob.model_validate({**yaml.safe_load(out), "spec": {**spec, **named}})
    assert spelled == plain
    bounds = yaml.safe_load(re.search(r"replicas: (\{min.*?\})", out)[1])  # type: ignore[index]
    assert plain.spec.stage(Stage.ENVIRONMENT).replicas.model_dump(include={"min", "max"}) == bounds


def test_what_it_suggests_is_valid_too() -> None:
    _, out, _ = run(gpus="4")
    profiles = yaml.safe_load("\n".join(line[6:] for line in out.splitlines() if line.startswith("  #     - {name")))
    made: dict[str, Any] = yaml.safe_load(out)
    made["spec"]["stages"]["sampler"]["gpuProfiles"] = profiles
    assert list(AgenticRLJob.model_validate(made).spec.stage(Stage.SAMPLER).profiles) == ["whole", "slice"]


PLACES: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "a claim": ({"model": "model"}, "model", {"claim": {"name": "model"}}),
    "a folder of a claim": ({"model": "m/qwen/14b"}, "model", {"claim": {"name": "m", "sub_path": "qwen/14b"}}),
    "a folder of the images": ({"model": "/models/tiny"}, "model", {"path": "/models/tiny"}),
    "tasks in a ConfigMap": ({"tasks": "configmap/sums"}, "tasks", {"config_map": {"name": "sums"}}),
    "code by the name of its module": ({"env": "my_rl.env:make"}, "code", {"config_map": {"name": "my-rl"}}),
    "code of the reward alone": (
        {"env": "steelyard_workers.environment.calculator:environment"},
        "code",
        {"config_map": {"name": "recipe"}},
    ),
    "code in a claim": ({"code": "src/rl"}, "code", {"claim": {"name": "src", "sub_path": "rl"}}),
}


@pytest.mark.parametrize(("given", "field", "want"), PLACES.values(), ids=PLACES)
def test_places_are_read(given: dict[str, str], field: str, want: dict[str, Any]) -> None:
    assert getattr(job(**given).spec, field).model_dump(exclude_none=True) == want


def test_callables_of_the_worker_images_need_no_code() -> None:
    made = job(
        env="steelyard_workers.environment.calculator:environment", reward="steelyard_workers.reward.calculator:score"
    )
    assert made.spec.code is None


def test_without_gpus_no_stage_asks_for_one() -> None:
    assert job(gpus="0").spec.initial_allocation.gpus(job(gpus="0").spec.gpu_prices) == 0


def test_a_large_budget_can_be_used() -> None:
    assert job(gpus="32").spec.stage(Stage.SAMPLER).replicas.max == 31


REFUSED = {
    "one GPU for two stages": ({"gpus": "1"}, "budget.gpus: gpus 1 must be at least 2"),
    "no module": ({"env": "recipe"}, 'stages.environment.entrypoint: "recipe"'),
    "a name that pods cannot have": ({"name": "My_Job"}, "metadata.name My_Job must start with a letter"),
    "a name with YAML in it": ({"name": "x}\nspec: {"}, "metadata.name"),
    "a claim that cannot be": ({"model": "Model!"}, "model.claim.name"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED)
def test_what_breaks_a_rule_is_not_written(given: dict[str, str], says: str) -> None:
    code, out, err = run(**given)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())


def test_a_file_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    assert run(output=str(file))[:2] == (0, "")
    assert AgenticRLJob.model_validate(yaml.safe_load(file.read_text()))
    assert f"kubectl apply -f {file}" in file.read_text()
    code, _, err = run(output=str(file), gpus="9")
    assert code == 2
    assert "File exists" in err
    assert "gpus: 2" in file.read_text()
