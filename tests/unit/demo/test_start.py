"""What goes wrong in the demo is told in a sentence, early, and is no reason to stop where it passes."""

from io import StringIO
from typing import Any, cast

import pytest
from nats.errors import NoServersError
from nats.js.errors import BucketNotFoundError
from rich.console import Console

from e2e.cluster import ClusterError, Exit, requirements
from e2e.demo import __main__ as demo
from e2e.kube import Kube

QUIET = Console(file=StringIO())


def test_what_is_missing_is_said_before_images_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, node: bool) -> None:
        raise ClusterError(Exit.NO_GO, f"no Go for a {node=}")

    monkeypatch.setattr(requirements, "check", missing)
    monkeypatch.setattr(demo, "build", lambda *_: pytest.fail("images come later"))
    with pytest.raises(ClusterError, match="node=True"):
        demo.run(None, QUIET)


class Reachable:
    """A cluster in which the bus has an address and the claim a folder."""

    def address(self, *_: str) -> str:
        return "10.0.0.1"

    def get(self, *_: Any) -> dict[str, Any]:
        return {"spec": {"volumeName": "pv", "hostPath": {"path": "/nowhere"}}}


@pytest.mark.parametrize("trouble", [NoServersError(), BucketNotFoundError(), ConnectionError(), LookupError()])
def test_a_bus_that_is_not_there_yet_or_no_more_is_asked_again_later(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    async def checked(*_: object) -> None:
        raise trouble

    monkeypatch.setattr(demo, "check", checked)
    watch = demo.Watch(cast(Kube, Reachable()), "calculator", QUIET)
    watch._check(demo.CHECK_EVERY_SECONDS)
    assert watch.live_findings is None


def test_who_interrupts_it_is_told_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 130
    assert "make demo-down" in capsys.readouterr().out
