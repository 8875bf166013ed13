"""Small libraries that stand in for CUDA's: torch loads without the real ones and is told "no device" when it asks."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from pathlib import Path

from e2e.cluster.shell import run
from e2e.images.elf import Kind, Library, Symbol

CUDA_ERROR_NO_DEVICE = 100
_SMALLEST_OBJECT = 8
_VTABLE_SLOTS = 32

# Called while `import torch` registers its bindings, so they must return something of the right shape.
_RETURNS_REFERENCE = {"_ZN4c10d15get_gil_checkerEv"}
_CONSTRUCTS = {"_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb": "N4c10d16ProcessGroupNCCL7OptionsE"}

_PRELUDE = """\
#include <stdio.h>
#include <stdlib.h>
extern void *_ZTVN10__cxxabiv117__class_type_infoE[];
static void called(const char *name) { fprintf(stderr, "%s needs CUDA, this torch has none\\n", name); abort(); }
"""


def plan(
    kept: Iterable[Library], dropped: Mapping[str, Library], absent: Set[str], system: Collection[str]
) -> dict[str, list[Symbol]]:
    """Which symbols each absent library must offer so that every kept library loads.

    A versioned symbol names its library. An unversioned one that a dropped library defined goes to the one dropped
    library which is still asked for (it pulled in the others), or to the absent library whose name it starts with
    (`cudnnCreate`: libcudnn); what is left comes from the interpreter.
    `system` holds the names that the C and C++ runtimes define: dropped libraries carry copies of some.
    """
    kept = list(kept)
    available = {name for library in kept for name in library.defines} | set(system)
    origin = {name: symbol for library in dropped.values() for name, symbol in library.defines.items()}
    (entry,) = dropped.keys() & absent
    stubs: dict[str, dict[str, Symbol]] = {soname: {} for soname in absent}
    for library in kept:
        for symbol in library.wants:
            if symbol.library in stubs:
                stubs[symbol.library][symbol.name] = symbol
            elif symbol.library is None and symbol.name not in available:
                if symbol.name in origin:
                    stubs[entry][symbol.name] = origin[symbol.name]
                elif home := _home_by_prefix(symbol.name, library, absent):
                    stubs[home][symbol.name] = symbol
    return {soname: [symbols[name] for name in sorted(symbols)] for soname, symbols in sorted(stubs.items())}


def _home_by_prefix(name: str, library: Library, absent: Collection[str]) -> str | None:
    stems = {soname: soname.removeprefix("lib").split(".")[0] for soname in library.needed if soname in absent}
    return next((soname for soname, stem in stems.items() if name.lower().startswith(stem.lower())), None)


def source(symbols: Iterable[Symbol]) -> str:
    """C for a stub library: C functions report no device, C++ functions abort with their name, data is zero."""
    return _PRELUDE + "".join(_definition(symbol) + "\n" for symbol in symbols)


def _definition(symbol: Symbol) -> str:
    name = symbol.name
    if name.startswith("_ZTI"):
        return _type_info(name, name.removeprefix("_ZTI"))
    if symbol.kind in (Kind.OBJECT, Kind.THREAD_LOCAL):
        storage = "__thread " if symbol.kind is Kind.THREAD_LOCAL else ""
        return f"{storage}char {name}[{max(symbol.size, _SMALLEST_OBJECT)}] __attribute__((aligned(16)));"
    if name in _RETURNS_REFERENCE:
        return f"void *{name}(void) {{ static void *value[{_VTABLE_SLOTS}]; return value; }}"
    if name in _CONSTRUCTS:
        return _constructor(name, _CONSTRUCTS[name])
    if name.startswith("_Z"):
        return f'void {name}(void) {{ called("{name}"); }}'
    if name.endswith(("String", "Name")):
        return f'const char *{name}(void) {{ return "no CUDA in this build"; }}'
    return f"long {name}(void) {{ return {CUDA_ERROR_NO_DEVICE}; }}"


def _type_info(variable: str, mangled: str) -> str:
    return f'void *{variable}[4] = {{ &_ZTVN10__cxxabiv117__class_type_infoE[2], "{mangled}" }};'


def _constructor(name: str, mangled: str) -> str:
    slots = ", ".join([f"{name}_slot"] * _VTABLE_SLOTS)
    return (
        f"static void {name}_slot(void) {{}} static {_type_info(f'{name}_type', mangled)} "
        f"static void *{name}_table[] = {{ 0, {name}_type, {slots} }}; "
        f"void {name}(void **self) {{ *self = {name}_table + 2; }}"
    )


def version_script(symbols: Iterable[Symbol]) -> str:
    """A linker script that gives each symbol the version its users were linked against; empty when none has one."""
    versions: dict[str, list[str]] = defaultdict(list)
    for symbol in symbols:
        if symbol.version:
            versions[symbol.version].append(symbol.name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in sorted(versions.items()))


def build(soname: str, symbols: list[Symbol], folder: Path) -> bytes:
    """Compile one stub library with the system's C compiler."""
    code, script, output = (folder / f"{soname}{suffix}" for suffix in (".c", ".map", ""))
    code.write_text(source(symbols))
    script.write_text(version_script(symbols))
    versions = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
    options = ["-w", "-Os", "-fno-builtin", "-shared", "-fPIC", "-s", f"-Wl,-soname,{soname}", "-Wl,--build-id=none"]
    run("gcc", *options, *versions, "-o", output, code, "-l:libstdc++.so.6")
    return output.read_bytes()
