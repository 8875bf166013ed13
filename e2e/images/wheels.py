"""Wheels as archives: read members, write a wheel whose bytes depend on its content alone."""

import base64
import hashlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_STAMP = (2020, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100000


@dataclass(frozen=True)
class Member:
    name: str
    content: bytes
    executable: bool = False


def write(path: Path, dist_info: str, members: Iterable[Member]) -> None:
    """Write members in the order given, then RECORD. Stored, not deflated: these wheels never travel, only unpack."""
    record = []
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for member in members:
            _put(archive, member)
            digest = base64.urlsafe_b64encode(hashlib.sha256(member.content).digest()).rstrip(b"=").decode()
            record.append(f'"{member.name}",sha256={digest},{len(member.content)}\n')
        name = f"{dist_info}/RECORD"
        _put(archive, Member(name, ("".join(record) + f"{name},,\n").encode()))
    part.rename(path)


def _put(archive: zipfile.ZipFile, member: Member) -> None:
    info = zipfile.ZipInfo(member.name, _STAMP)
    info.external_attr = (_REGULAR_FILE | (0o755 if member.executable else 0o644)) << 16
    archive.writestr(info, member.content)


def metadata_only(folder: Path, name: str, version: str, requires: str) -> Path:
    """A wheel with no code that makes a distribution known under the name other packages probe for."""
    dist_info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: {requires}\n"
    wheel = "Wheel-Version: 1.0\nGenerator: steelyard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    write(
        path,
        dist_info,
        [Member(f"{dist_info}/METADATA", metadata.encode()), Member(f"{dist_info}/WHEEL", wheel.encode())],
    )
    return path
