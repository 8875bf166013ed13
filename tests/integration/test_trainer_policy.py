"""A policy that is saved and loaded goes on exactly as if it had never stopped."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from steelyard_workers.termination import UserError
from steelyard_workers.trainer import grpo
from steelyard_workers.trainer.checkpoint import Checkpoints
from steelyard_workers.trainer.ledger import Ledger
from steelyard_workers.trainer.policy import Policy
from steelyard_workers.trainer.settings import Settings
from tests.integration.small_policy import small_model
from tests.unit.workers.experience import experience

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return small_model(tmp_path_factory.mktemp("model"))


def policy(model: Path, **args: str) -> Policy:
    return Policy(model, Settings.parse({"learningRate": "1e-2", **args}))


def rows(seed: int) -> list[grpo.Row]:
    torch.manual_seed(seed)
    group = [
        experience(k=k, reward=float(k % 2), policy_tokens=tuple(torch.randint(3, 32, (4,)).tolist())) for k in range(4)
    ]
    return grpo.rows(group)


def weights(policy: Policy) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in policy.model.parameters()])


def test_a_resumed_policy_takes_the_same_steps_bit_by_bit(model: Path, tmp_path: Path) -> None:
    straight, first, resumed = policy(model), policy(model), policy(model)
    checkpoints = Checkpoints(tmp_path)
    for each in (straight, first):
        each.update(rows(1))
    name = checkpoints.write(first, Ledger(epoch=1, step=1))
    assert checkpoints.newest() == name == "1.1"
    checkpoints.load(name, resumed)
    for each in (straight, resumed):
        each.update(rows(2))
    assert torch.equal(weights(straight), weights(resumed))
    assert not torch.equal(weights(straight), weights(first))


def test_a_resumed_job_obeys_the_learning_rate_it_has_now(model: Path, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    name = checkpoints.write(policy(model), Ledger(epoch=1, step=0))
    stopped = policy(model, learningRate="0")
    checkpoints.load(name, stopped)
    before = weights(stopped)
    stopped.update(rows(1))
    assert torch.equal(weights(stopped), before)


@pytest.mark.parametrize("micro_batch", ["1", "3"])
def test_the_update_does_not_depend_on_the_micro_batch(model: Path, micro_batch: str) -> None:
    whole, cut = policy(model), policy(model, microBatch=micro_batch)
    one, other = whole.update(rows(1)), cut.update(rows(1))
    assert other.loss == pytest.approx(one.loss, abs=1e-6)
    assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-4)
    assert other.entropy == pytest.approx(one.entropy, abs=1e-5)


def test_an_update_makes_rewarded_tokens_likelier(model: Path) -> None:
    learner = policy(model)
    good = [7, 8, 9, 10]
    group = [
        experience(k=0, reward=1.0, policy_tokens=(7, 8, 9, 10)),
        experience(k=1, reward=0.0, policy_tokens=(11, 12, 13, 14)),
    ]
    before = sum(learner.log_probabilities([5, 6, *good])[1:])
    learner.update(grpo.rows(group))
    assert sum(learner.log_probabilities([5, 6, *good])[1:]) > before


def test_an_update_that_is_not_finite_changes_no_weights(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One token that the sampler thought impossible must not make every weight NaN, in checkpoints and samplers too."""
    learner = policy(model)
    before = weights(learner)
    group = [
        experience(k=0, reward=0.0, policy_tokens=(7, 8), logprobs=(-1e4, -1.0)),
        experience(k=1, reward=1.0, policy_tokens=(9, 10)),
    ]
    update = learner.update(grpo.rows(group))
    assert not math.isfinite(update.gradient_norm)
    assert torch.equal(weights(learner), before)
    assert "changes no weights" in caplog.text
    learner.update(rows(1))
    assert not torch.equal(weights(learner), before)
    assert weights(learner).isfinite().all()


def test_half_precision_is_published_and_full_precision_kept(model: Path, tmp_path: Path) -> None:
    half = policy(model, precision="bfloat16")
    update = half.update(rows(1))
    assert update.gradient_norm > 0
    half.save(tmp_path, torch.bfloat16)
    assert {value.dtype for value in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}
    assert {value.dtype for value in half.model.state_dict().values()} == {torch.float32}


def test_a_checkpoint_is_a_model_folder_that_others_can_load(model: Path, tmp_path: Path) -> None:
    saved = policy(model)
    saved.update(rows(1))
    name = Checkpoints(tmp_path).write(saved, Ledger(epoch=1, step=1))
    assert torch.equal(weights(Policy(tmp_path / name, Settings())), weights(saved))


def test_another_model_is_refused_with_the_difference(model: Path, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    name = checkpoints.write(policy(model), Ledger(epoch=1, step=0))
    other = policy(small_model(tmp_path / "other", hidden=32))
    with pytest.raises(UserError, match="another model: hidden_size 16 instead of 32"):
        checkpoints.load(name, other)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    with pytest.raises(UserError, match="model "):
        policy(tmp_path)


def test_garbage_of_earlier_epochs_goes_and_old_checkpoints_keep_their_ledger(model: Path, tmp_path: Path) -> None:
    checkpoints, saved = Checkpoints(tmp_path), policy(model)
    for epoch, step, parent in ((1, 2, None), (1, 4, "1.2"), (1, 6, "1.4"), (2, 6, "1.4")):
        checkpoints.write(saved, Ledger(epoch=epoch, step=step, parent=parent))
    (tmp_path / "1.8.partial").mkdir()
    checkpoints.discard_garbage(epoch=3, head="2.6")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.2", "1.4", "2.6"], "1.6 was never committed"
    checkpoints.tidy("2.6", "1.4")
    assert [path.name for path in (tmp_path / "1.2").iterdir()] == ["ledger.json"]
    assert checkpoints.newest() == "2.6"


def test_an_old_ledger_that_somebody_deleted_does_not_end_the_job(model: Path, tmp_path: Path) -> None:
    checkpoints, saved = Checkpoints(tmp_path), policy(model)
    for epoch, step, parent in ((1, 2, None), (1, 3, None), (1, 4, "1.2"), (1, 5, "1.4"), (2, 6, "1.4")):
        checkpoints.write(saved, Ledger(epoch=epoch, step=step, parent=parent))
    (tmp_path / "1.4" / "ledger.json").unlink()
    checkpoints.discard_garbage(epoch=3, head="2.6")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.2", "1.3", "1.4", "2.6"], "of 1.5 it knows"
