"""What a bundle withholds: attempts to smuggle a secret through logs, objects and rendered configuration."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from steelyard.cli.bundling.patterns import is_secret_key
from steelyard.cli.bundling.redact import Redactor

SECRET = "hunter2-correct.horse"
HF, KEY = "hf_" + "aBcD1234" * 4, "AKIA" + "ABCDEFGHIJ123456"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "IBAAKCAQEA\n" * 3 + "-----END RSA PRIVATE KEY-----"

LINES = {
    "an assignment": f"api_key={SECRET}",
    "a mapping": f"token: {SECRET}",
    "python's repr": f"Settings(model='x', hf_token='{SECRET}', steps=4)",
    "json": json.dumps({"apiKey": SECRET}),
    "json within json": json.dumps({"line": json.dumps({"apiKey": SECRET})}),
    "json within json within json": json.dumps({"a": json.dumps({"b": json.dumps({"client_secret": SECRET})})}),
    "an arrow": f"password => {SECRET}",
    "a password with spaces": f"password: {SECRET} and {SECRET}",
    "a quoted password with quotes": f'password="say \\"{SECRET}\\" twice"',
    "colours in the middle": f"\x1b[31mpass\x1b[0mword\x1b[1m=\x1b[0m{SECRET}",
    "a control character in the key": f"pass\x08word={SECRET}",
    "a header": f"Authorization: Bearer {SECRET}",
    "a header in a list": f"headers=[('authorization', 'Basic {SECRET}')]",
    "curl": f"curl -H 'X-Api-Key: {SECRET}' https://judge",
    "credentials in a URL": f"connecting to postgres://rl:{SECRET}@db:5432/runs",
    "a user alone in a URL": f"https://{SECRET}@huggingface.co/model",
    "a signed URL": f"GET https://bucket/x?X-Amz-Signature={SECRET}&X-Amz-Date=1",
    "an SAS": f"https://account.blob/x?sv=1&sig={SECRET}",
    "a parameter": f"wss://judge/ws?access_token={SECRET}",
    "an option": f"python -m judge --api-key {SECRET} --port 80",
    "an option with =": f"python -m judge --auth-token={SECRET}",
    "yaml, a block": f"password: |\n  {SECRET}\n  {SECRET}\nport: 80",
    "yaml, the next line": f"  credentials:\n    {SECRET}\n  port: 80",
    "yaml, a list": f"tokens_for:\n- apiKey: {SECRET}",
    "no separator in the key": f"dbpassword={SECRET}",
    "camel case": f"wandbApiKey={SECRET}",
    "a numbered key": f"HF_TOKEN_2={SECRET}",
    "an environment": f"environ({{'WANDB_API_KEY': '{SECRET}', 'HOME': '/tmp'}})",
    "a cookie": f"Cookie: session={SECRET}",
    "an AWS key pair": f"aws_secret_access_key = {SECRET}",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_log_line_does_not_carry_it_out(line: str) -> None:
    redactor = Redactor()
    kept = redactor.text("pod.log", f"before\n{line}\nafter")
    assert SECRET not in kept
    assert kept.startswith("before")
    assert kept.endswith("after")
    assert sum(redactor.withheld.values()) >= 1
    assert SECRET not in str(redactor.withheld)


@pytest.mark.parametrize("secret", [HF, KEY, JWT, PEM, "ghp_" + "a1" * 18, "sk-proj-" + "x" * 24, "glpat-" + "b" * 20])
def test_a_token_is_known_by_its_form_wherever_it_stands(secret: str) -> None:
    assert secret not in Redactor().text("pod.log", f"loaded {secret} from somewhere")


HARMLESS = {
    "counts of tokens": "prompt_tokens: 512, max_tokens=4096 steelyard_trajectory_tokens_sum 1.5e6",
    "a tokenizer": 'tokenizer="/model/tokenizer.json" token_ids=[1, 2, 3]',
    "names of Secrets": "secretName: wandb",
    "a switch": "automountServiceAccountToken: false",
    "a step": "step 12: reward 0.512, loss 0.0031, 1.90 s after a wait of 0.31 s",
    "an address": "asking http://10.0.0.7:8000/v1/completions",
    "a time": "2026-11-30T13:02:33Z INFO key: value",
    "a digest": "image registry/steelyard@sha256:" + "ab" * 32,
    "a volume": "volumes:\n- name: tls\n  secret:\n    secretName: tls\n",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_helps_to_understand_a_run_stays(text: str) -> None:
    assert Redactor().text("pod.log", text) == text


KEYS = {
    True: "password DB_PASSWORD apiKey APIKEY HF_TOKEN hf-token hfToken accessToken authtoken client_secret auth "
    "AWS_ACCESS_KEY_ID privateKey signing.key credentials passwd token1 access_tokens openaiapikey",
    False: "tokens maxTokens tokenizer token_ids key keyName secretName passwordFile api_key_path tokenCount name "
    "promptTokens monkey secretRef configMap generated_tokens_total",
}


@pytest.mark.parametrize(("key", "secret"), [(key, secret) for secret, keys in KEYS.items() for key in keys.split()])
def test_keys_are_judged_word_by_word(key: str, secret: bool) -> None:
    assert is_secret_key(key) is secret


def pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "worker", **container}]}}


OBJECTS = {
    "a variable with a telling name": pod(env=[{"name": "WANDB_API_KEY", "value": SECRET}]),
    "a variable with an innocent name": pod(env=[{"name": "FOO", "value": SECRET}]),
    "a secret under a name that is kept": pod(env=[{"name": "VLLM_API_KEY", "value": SECRET}]),
    "an argument": pod(args=["--api-key", SECRET]),
    "an argument with =": pod(command=["serve", f"--hf-token={SECRET}"]),
    "a shell line": pod(command=["sh", "-c", f"export HF_TOKEN={SECRET}; serve"]),
    "a probe's header": pod(livenessProbe={"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}}),
    "an annotation": {"metadata": {"annotations": {"example.com/api-token": SECRET}}},
    "the applied manifest": {
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"x": SECRET})}}
    },
    "rendered json": {"kind": "ConfigMap", "data": {"job.json": json.dumps({"spec": {"args": {"apiKey": SECRET}}})}},
    "rendered yaml": {"kind": "ConfigMap", "data": {"config.yaml": f"judge:\n  password: {SECRET}\n"}},
    "rendered ini": {"kind": "ConfigMap", "data": {"tool.ini": f"[db]\nurl=mysql://u:{SECRET}@db/x\n"}},
    "rendered nats.conf": {"kind": "ConfigMap", "data": {"nats.conf": f'authorization {{ token: "{SECRET}" }}'}},
    "bytes": {"kind": "ConfigMap", "binaryData": {"x": base64.b64encode(SECRET.encode()).decode()}},
    "arguments of the reward": {"spec": {"stages": {"rewardServer": {"args": {"judgeToken": SECRET}}}}},
    "a mapping below a secret key": {"spec": {"credentials": {"user": "rl", "value": SECRET}}},
    "a list below a secret key": {"spec": {"passwords": [SECRET]}},
    "a message": {"status": {"message": f"cannot log in with password={SECRET}"}},
}


@pytest.mark.parametrize("obj", OBJECTS.values(), ids=OBJECTS)
def test_an_object_does_not_carry_it_out(obj: dict[str, Any]) -> None:
    redactor = Redactor()
    assert SECRET not in redactor.document("pods.yaml", obj)
    assert redactor.withheld


def test_what_an_object_gave_away_is_found_in_logs_without_its_key() -> None:
    redactor = Redactor()
    redactor.document("pods.yaml", [pod(env=[{"name": "HF_TOKEN", "value": SECRET}])])
    for written in (SECRET, base64.b64encode(SECRET.encode()).decode(), SECRET.replace(".", "%2E").replace("%2E", ".")):
        assert written not in redactor.text("pod.log", f"downloading with {written} now")
    assert redactor.withheld["pod.log", "a value withheld elsewhere"] == 3


def test_what_the_operator_itself_sets_stays_readable() -> None:
    env = [{"name": "STEELYARD_STAGE", "value": "sampler"}, {"name": "NATS_URL", "value": "nats://calculator-bus:4222"}]
    reference = {"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "api-key"}}}
    written = Redactor().document("pods.yaml", pod(env=[*env, reference]))
    assert "nats://calculator-bus:4222" in written
    assert "key: api-key" in written, "which Secret is meant is no secret"


def test_a_long_log_is_redacted_within_seconds() -> None:
    line = "2026-11-30T13:02:33Z INFO step 12: reward 0.512 key_with_a_long_name_" + "x" * 150 + " loss=0.0031 a.b.c\n"
    started = time.process_time()
    Redactor().text("pod.log", line * 5000 + "a" * 100_000)
    assert time.process_time() - started < 5
