"""The command line as people run it, against a real API server with the operator at work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from e2e.cluster.cluster import Cluster, kubectl
from steelyard.cli import app
from tests.integration.operator.conftest import credentials, operated, operator, shared_operator

__all__ = ["credentials", "operated", "operator", "shared_operator"]

PROGRAM = [sys.executable, "-c", "from steelyard.cli import main; main()"]


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables of a shell in which kubectl is the administrator's."""
    variables = {"KUBECONFIG": str(cluster.kubeconfig), "KUBECTL": kubectl(), "COLUMNS": "200"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, **variables}


@pytest.fixture
def steelyard(environment: dict[str, str], namespace: str) -> Callable[..., Answer]:
    """Runs `steelyard ARGUMENTS -n NAMESPACE`."""

    def run(*arguments: str) -> Answer:
        result = CliRunner().invoke(app, [*arguments, "-n", namespace])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run
