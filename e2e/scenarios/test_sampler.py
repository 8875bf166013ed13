"""A real vLLM follows a trainer's weights: what it computes, what it refuses, how it leaves.

One server for all tests, in their order: the last two end it. The trainer is played by `Publisher`, whose figures come
from transformers, an implementation of the model that is not vLLM's.
"""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from e2e.local import TINY
from e2e.scenarios.sampler import LONG, PROMPT, START_SECONDS, Publisher, Sampler, load, running_sampler
from steelyard_workers.sampler.canary import FILE, FLOAT32_TOLERANCE
from steelyard_workers.sampler_protocol import VERSION_HEADER
from tests.pipeline import job_config, worker_environment

pytestmark = pytest.mark.timeout(START_SECONDS + 120)


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sampler]:
    with running_sampler(tmp_path_factory.mktemp("sampler")) as sampler:
        yield sampler


@pytest.fixture(scope="module")
def publisher(sampler: Sampler) -> Publisher:
    return Publisher(sampler)


def how_it_ended(response: httpx.Response) -> tuple[str, int]:
    choice = response.json()["choices"][0]
    return choice["finish_reason"], len(choice["token_ids"])


def engine_says(sampler: Sampler) -> tuple[list[int], list[float]]:
    choice = sampler.complete(PROMPT).json()["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


def test_it_serves_the_base_model_before_the_trainers_first_word(sampler: Sampler) -> None:
    """PrimeIntellect-ai/prime-rl#2219: a fresh start needs no version 0 on disk."""
    response = sampler.complete(PROMPT)
    assert response.headers[VERSION_HEADER] == "0.0"
    assert sampler.get("/healthz").status_code == 200


def test_a_published_version_is_pulled_and_computed_with(sampler: Sampler, publisher: Publisher) -> None:
    """The prompt fills whole cache blocks before and after: attention states of old weights would show."""
    engine_says(sampler)
    for version, seed in (("1.1", 1), ("1.2", 2)):
        folder = publisher.write(version, seed)
        publisher.point(version)
        sampler.wait_for_version(version)
        tokens, logprobs = engine_says(sampler)
        want = publisher.logprobs(folder, [*PROMPT, *tokens])[-len(tokens) :]
        assert logprobs == pytest.approx(want, abs=FLOAT32_TOLERANCE)
        assert sampler.get("/readyz").status_code == 200


def test_a_request_that_spans_an_update_finishes_and_names_both_versions(
    sampler: Sampler, publisher: Publisher
) -> None:
    """vllm-project/vllm: pause with keep freezes requests; none is lost, none starts over."""
    publisher.write("1.3", 3)

    with load(sampler) as answers:
        sampler.wait_for("requests run", lambda: len(answers) > 0)
        publisher.point("1.3")
        sampler.wait_for("an answer by 1.3", lambda: bool(answers) and answers[-1].headers[VERSION_HEADER] == "1.3")
    assert "1.2, 1.3" in {response.headers[VERSION_HEADER] for response in answers}
    assert {how_it_ended(response) for response in answers} == {("length", LONG)}


def test_a_lower_step_of_a_higher_epoch_is_followed_after_a_resume(sampler: Sampler, publisher: Publisher) -> None:
    publisher.write("2.1", 4)
    publisher.point("2.1")
    sampler.wait_for_version("2.1")


def test_a_torn_version_leaves_the_engine_as_it_is_until_it_is_whole(sampler: Sampler, publisher: Publisher) -> None:
    before = engine_says(sampler)
    whole = publisher.write("2.2", 5) / "model.safetensors"
    content = whole.read_bytes()
    whole.write_bytes(content[: len(content) // 2])
    publisher.point("2.2")
    sampler.wait_for("it is refused, and again", lambda: sampler.log.read_text().count("version 2.2: ") >= 2)
    assert sampler.get("/version").headers[VERSION_HEADER] == "2.1"
    assert engine_says(sampler) == before
    assert sampler.get("/readyz").status_code == 200, "one version behind is allowed"
    whole.write_bytes(content)
    sampler.wait_for_version("2.2")


def test_too_far_behind_it_asks_for_no_requests_until_it_has_caught_up(sampler: Sampler, publisher: Publisher) -> None:
    shutil.rmtree(publisher.write("2.4", 6))
    publisher.point("2.4")
    sampler.wait_for("not ready", lambda: sampler.get("/readyz").status_code == 503)
    assert "2 behind 2.4" in sampler.get("/readyz").text
    publisher.write("2.4", 6)
    sampler.wait_for("ready", lambda: sampler.get("/readyz").status_code == 200)


def outside_address() -> str:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; only picks the address that would be used
        address: str = probe.getsockname()[0]
        return address


@pytest.mark.parametrize(
    "path",
    [
        "/pause",
        "/resume",
        "/update_weights",
        "/start_weight_update",
        "/finish_weight_update",
        "/collective_rpc",
        "/sleep",
        "/wake_up",
        "/reset_prefix_cache",
        "/abort_requests",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/scale_elastic_ep",
        "/pause/",
        "//pause",
    ],
)
def test_routes_that_change_the_engine_are_refused_from_outside_the_pod(sampler: Sampler, path: str) -> None:
    assert sampler.post(path, host=outside_address()).status_code == 403


def test_people_inside_the_pod_may_ask_them_and_everybody_may_ask_for_tokens(sampler: Sampler) -> None:
    assert sampler.get("/is_paused").json() == {"is_paused": False}
    assert sampler.get("/v1/models", host=outside_address()).status_code == 200
    assert sampler.get("/readyz", host=outside_address()).status_code == 200


def test_its_metrics_stand_beside_vllms(sampler: Sampler) -> None:
    lines = sampler.get("/metrics").text.splitlines()
    values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}
    assert values["steelyard_policy_epoch"] == 2
    assert values["steelyard_policy_version"] == 4
    assert values['steelyard_stage_seconds_total{stage="sampler",state="sync"}'] > 0
    assert values['steelyard_stage_seconds_total{stage="sampler",state="busy"}'] > 0
    assert values['steelyard_stage_slots{stage="sampler"}'] == 1
    assert any(name.startswith("vllm:generation_tokens_total") for name in values)


def test_weights_that_do_not_answer_the_canary_end_the_sampler(sampler: Sampler, publisher: Publisher) -> None:
    """What an update that reports success and changes nothing looks like: PrimeIntellect-ai/prime#381."""
    other = publisher.write("2.5", 7)
    (other / FILE).replace(other / "kept")
    publisher.write("2.5", 8)
    (other / "kept").replace(other / FILE)
    publisher.point("2.5")
    sampler.wait_for("asks to be restarted", lambda: sampler.get("/healthz").status_code == 503)
    assert "log-probabilities differ" in sampler.get("/healthz").text
    assert "log-probabilities differ" in Path(sampler.environment["STEELYARD_TERMINATION_LOG"]).read_text()
    assert sampler.get("/readyz").status_code == 503


def test_it_leaves_after_its_running_requests_and_takes_no_new_ones(sampler: Sampler) -> None:
    """vllm-project/vllm#24885: scaling down must not abort requests in flight."""

    with load(sampler) as answers:
        sampler.wait_for("requests run", lambda: len(answers) > 0)
        hook = subprocess.run(
            [sys.executable, "-m", "steelyard_workers.drain"], env=sampler.environment, check=False, timeout=60
        )
        after = sampler.complete(PROMPT[:8])
    assert hook.returncode == 0
    assert (after.status_code, after.headers["Retry-After"]) == (503, "5")
    assert {response.status_code for response in answers} == {200, 503}
    assert {how_it_ended(response) for response in answers if response.status_code == 200} == {("length", LONG)}


def test_a_tied_model_is_refused_on_cpus_with_its_reason(tmp_path: Path) -> None:
    """On CPUs vLLM keeps a stale copy of a tied output layer, reports success and answers wrongly."""
    model = tmp_path / "model"
    model.mkdir()
    config = json.loads((TINY / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    environment = worker_environment(job_config(), tmp_path, "nats://127.0.0.1:1", STEELYARD_MODEL=str(model))
    ended = subprocess.run(
        [sys.executable, "-m", "steelyard_workers.sampler"], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == 64
    assert "tie_word_embeddings is true" in (tmp_path / "termination-log").read_text()
