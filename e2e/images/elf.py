"""What a shared library needs, offers and asks for, as its dynamic section says; how torch is cut loose from CUDA."""

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from elftools.elf.elffile import ELFFile

_UNDEFINED_SECTION = 0
_WEAK_BINDING = 2
_SYMBOL = struct.Struct("<IBBHQQ")
_VERSION_INDEX = struct.Struct("<H")


class Kind(Enum):
    """The ELF symbol types that matter to a linker; the values are ELF's own."""

    UNTYPED = 0
    OBJECT = 1
    FUNCTION = 2
    THREAD_LOCAL = 6


_KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True)
class Symbol:
    """One dynamic symbol; `library` and `version` are set where the linker wrote down which library it expects."""

    name: str
    kind: Kind = Kind.FUNCTION
    size: int = 0
    library: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class Library:
    """`wants` leaves out weak symbols: a loader accepts their absence."""

    needed: tuple[str, ...]
    defines: Mapping[str, Symbol]
    wants: tuple[Symbol, ...]


def read(content: bytes) -> Library:
    """Parse a 64-bit little-endian shared library."""
    elf = ELFFile(io.BytesIO(content))
    needed = tuple(tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"))
    defines: dict[str, Symbol] = {}
    wants: list[Symbol] = []
    for symbol, undefined, weak in _symbols(elf):
        if not undefined:
            defines[symbol.name] = symbol
        elif not weak:
            wants.append(symbol)
    return Library(needed, defines, tuple(wants))


def _symbols(elf: ELFFile) -> Iterator[tuple[Symbol, bool, bool]]:
    table = elf.get_section_by_name(".dynsym")
    names = elf.get_section(table["sh_link"]).data()
    versions = _expected_versions(elf)
    versym = elf.get_section_by_name(".gnu.version")
    indices = _VERSION_INDEX.iter_unpack(versym.data()) if versym else iter(lambda: (0,), None)
    for (name_at, info, _, section, _, size), (index,) in zip(_SYMBOL.iter_unpack(table.data()), indices, strict=False):
        if not name_at:
            continue
        name = names[name_at : names.index(0, name_at)].decode()
        kind = _KINDS.get(info & 0xF, Kind.FUNCTION)
        library, version = versions.get(index, (None, None))
        yield Symbol(name, kind, size, library, version), section == _UNDEFINED_SECTION, info >> 4 == _WEAK_BINDING


def _expected_versions(elf: ELFFile) -> dict[int, tuple[str, str]]:
    section = elf.get_section_by_name(".gnu.version_r")
    if section is None:
        return {}
    return {
        entry["vna_other"]: (need.name, entry.name) for need, entries in section.iter_versions() for entry in entries
    }
