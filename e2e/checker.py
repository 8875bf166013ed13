"""Counts what became of every trajectory a job admitted. It shares no code with the trainer that it checks.

    python -m e2e.checker --nats nats://localhost:4222 --checkpoints FOLDER --job NAME

An id is group/k. It is *trained* when a step on the committed chain of ledgers consumed it, *duplicated* when two did.
It is *lost* when it was admitted and is nowhere: not consumed, not in the dead letters and not in any stream; or when a
ledger says that this had happened and it was fed anew. What the streams still hold is *open*; after the last step that
is surplus. Without a bus (a job that ended takes it along) only what the ledgers tell is counted.
"""

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import nats
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError

DOWNSTREAM = ("TASKS", "TRAJECTORIES", "EXPERIENCE", "DEAD")  # what moves on while we look is seen further down
LOOKS = 3
VERSION = re.compile(r"\d+\.\d+")  # what is not whole yet has a longer name


class Id(NamedTuple):
    """One trajectory, whatever its attempt."""

    group: int
    k: int


@dataclass(frozen=True)
class Findings:
    """How many, and which where there should be none. `gaps` are steps that the chain of ledgers lacks or repeats."""

    step: int
    trained: int
    closed_untrained: int
    open: int | None
    lost: list[str]
    duplicated: list[str]
    gaps: list[int]

    @property
    def ok(self) -> bool:
        """Nothing lost, nothing trained twice."""
        return not (self.lost or self.duplicated or self.gaps)


@dataclass(frozen=True)
class BusView:
    """What the bus says: who was admitted, who is under way, who is dead, and which checkpoint is the head."""

    admitted: set[Id]
    under_way: set[Id]
    dead: set[Id]
    head: str | None


def ledgers(checkpoints: Path, head: str | None) -> list[dict[str, Any]]:
    """The committed ledgers, oldest first: the head and, from each to its parent, all before it."""
    chain = []
    while head is not None:
        ledger = json.loads((checkpoints / head / "ledger.json").read_text())
        chain.append(ledger)
        head = ledger["parent"]
    return chain[::-1]


def newest(checkpoints: Path) -> str | None:
    """The last checkpoint by epoch, then step: what was committed last, when no bus is left to say so."""
    names = [path.parent.name for path in checkpoints.glob("*/ledger.json") if VERSION.fullmatch(path.parent.name)]
    return max(names, key=lambda name: tuple(map(int, name.split("."))), default=None)


def judge(chain: list[dict[str, Any]], bus: BusView | None) -> Findings:
    """Pure: the findings from the ledgers and, if there is one, the bus."""
    consumed = Counter(Id(group["group"], member["k"]) for group, member in _members(chain))
    trained = {Id(group["group"], member["k"]) for group, member in _members(chain) if member["fate"] == "trained"}
    steps = [step["step"] for ledger in chain for step in ledger["steps"]]
    last = chain[-1]["step"] if chain else 0
    lost = {Id(*member) for ledger in chain for member in ledger["refed"]}
    still_open: int | None = None
    if bus is not None:
        lost |= bus.admitted - set(consumed) - bus.under_way - bus.dead
        still_open = len(bus.under_way - set(consumed))
    return Findings(
        step=last,
        trained=len(trained),
        closed_untrained=len(consumed) - len(trained),
        open=still_open,
        lost=_names(lost),
        duplicated=_names({id_ for id_, count in consumed.items() if count > 1}),
        gaps=sorted(step for step in range(1, last + 1) if steps.count(step) != 1),
    )


async def view(url: str, job: str) -> BusView:
    """Look at the bus once, in the order in which trajectories move. The head comes last: acks follow commits."""
    client = await nats.connect(url, max_reconnect_attempts=5)
    try:
        js = client.jetstream(timeout=5)
        admitted = await _key(js, "admitted")
        held = {stream: await _ids(js, stream, job) for stream in DOWNSTREAM}
        head = await _key(js, "head")
    finally:
        await client.close()
    groups = range(admitted["next"]) if admitted else ()
    return BusView(
        admitted={Id(group, k) for group in groups for k in range(admitted["size"])} if admitted else set(),
        under_way=held["TASKS"] | held["TRAJECTORIES"] | held["EXPERIENCE"],
        dead=held["DEAD"],
        head=head["path"] if head else None,
    )


async def check(url: str, job: str, checkpoints: Path) -> Findings:
    """The findings at this moment, while the job runs or after it. Only what is missing in every look counts as lost:
    a trajectory that goes back to the start of the pipeline may slip through one."""
    findings = []
    for _ in range(LOOKS):
        bus = await view(url, job)
        findings.append(judge(ledgers(checkpoints, bus.head), bus))
        if findings[-1].ok:
            break
    lost = set.intersection(*(set(found.lost) for found in findings))
    return Findings(**{**asdict(findings[-1]), "lost": sorted(lost)})


def check_offline(checkpoints: Path) -> Findings:
    """The findings from the ledgers alone."""
    return judge(ledgers(checkpoints, newest(checkpoints)), None)


def _members(chain: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for ledger in chain:
        for step in ledger["steps"]:
            for group in step["groups"]:
                for member in group["members"]:
                    yield group, member


def _names(ids: set[Id]) -> list[str]:
    return [f"{id_.group}/{id_.k}" for id_ in sorted(ids)]


async def _key(js: JetStreamContext, key: str) -> dict[str, Any] | None:
    try:
        entry = await (await js.key_value("steelyard")).get(key)
    except KeyNotFoundError:
        return None
    value: dict[str, Any] = json.loads(entry.value or b"null")
    return value


async def _ids(js: JetStreamContext, stream: str, job: str) -> set[Id]:
    info = await js.stream_info(stream, subjects_filter=">")
    parts = [subject.split(".") for subject in info.state.subjects or ()]
    return {Id(int(group), int(k)) for *_, owner, group, k, _ in parts if owner == job}


def main() -> int:
    """Print the findings as JSON; exit 1 when anything is lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nats", help="the bus; without it only the ledgers are read")
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--job", required=True)
    options = parser.parse_args()
    if options.nats:
        findings = asyncio.run(check(options.nats, options.job, options.checkpoints))
    else:
        findings = check_offline(options.checkpoints)
    print(json.dumps(asdict(findings), indent=2))
    return 0 if findings.ok else 1


if __name__ == "__main__":
    sys.exit(main())
