"""The stand-ins for CUDA's libraries: which symbols they offer, and what those do when called."""

import ctypes
from pathlib import Path

import pytest

from e2e.cluster.shell import run
from e2e.images import elf, stubs
from e2e.images.elf import Kind, Library, Symbol

CUDA = "libtorch_cuda.so"


def library(
    *wants: Symbol, needed: tuple[str, ...] = (CUDA, "libcudnn.so.9"), defines: tuple[str, ...] = ()
) -> Library:
    return Library(needed, {name: Symbol(name) for name in defines}, wants)


@pytest.mark.parametrize(
    ("want", "home"),
    [
        pytest.param(Symbol("cudaMalloc", library="libcudart.so.13"), "libcudart.so.13", id="versioned: where it says"),
        pytest.param(Symbol("_ZN2at4cuda"), CUDA, id="defined by a dropped library: the one still asked for"),
        pytest.param(Symbol("cudnnCreate"), "libcudnn.so.9", id="named after an absent library: there"),
        pytest.param(Symbol("PyList_New"), None, id="the interpreter's: nowhere"),
        pytest.param(Symbol("kept"), None, id="another kept library has it: nowhere"),
        pytest.param(Symbol("_ZNSs4swap"), None, id="the C++ runtime's, though a dropped library has a copy: nowhere"),
        pytest.param(Symbol("malloc", library="libc.so.6"), None, id="versioned by the system's library: nowhere"),
    ],
)
def test_each_missing_symbol_gets_one_home(want: Symbol, home: str | None) -> None:
    dropped = {
        CUDA: Library((), {"_ZNSs4swap": Symbol("_ZNSs4swap")}, ()),
        "libtorch_nvshmem.so": Library((), {"_ZN2at4cuda": Symbol("_ZN2at4cuda")}, ()),
    }
    absent = {CUDA, "libcudart.so.13", "libcudnn.so.9"}
    planned = stubs.plan([library(want), library(defines=("kept",))], dropped, absent, system={"_ZNSs4swap"})
    assert {soname for soname, symbols in planned.items() if symbols} == ({home} if home else set())
    assert planned.keys() == absent


def test_a_stub_keeps_the_type_and_size_that_the_dropped_library_had() -> None:
    table = Symbol("table", Kind.OBJECT, 64)
    planned = stubs.plan([library(Symbol("table"))], {CUDA: Library((), {"table": table}, ())}, {CUDA}, set())
    assert planned == {CUDA: [table]}


def test_a_built_stub_loads_and_says_that_there_is_no_device(tmp_path: Path) -> None:
    wanted = [
        Symbol("cudaGetDeviceCount", version="libcudart.so.13"),
        Symbol("cudaGetErrorString", version="libcudart.so.13"),
        Symbol("table", Kind.OBJECT, 64, version="libcudart.so.13"),
    ]
    content = stubs.build("libcudart.so.13", wanted, tmp_path)
    built = ctypes.CDLL(str(tmp_path / "libcudart.so.13"))
    built.cudaGetErrorString.restype = ctypes.c_char_p
    assert built.cudaGetDeviceCount() == stubs.CUDA_ERROR_NO_DEVICE
    assert built.cudaGetErrorString() == b"no CUDA in this build"
    assert bytes((ctypes.c_char * 64).in_dll(built, "table")) == bytes(64)
    assert elf.read(content).defines["table"].kind is Kind.OBJECT


def test_a_library_linked_against_a_stub_asks_for_it_by_version(tmp_path: Path) -> None:
    stubs.build("libcudart.so.13", [Symbol("cudaMalloc", version="libcudart.so.13")], tmp_path)
    code = tmp_path / "user.c"
    code.write_text("long cudaMalloc(void); long use(void) { return cudaMalloc(); }")
    run("gcc", "-shared", "-fPIC", "-o", tmp_path / "user.so", code, tmp_path / "libcudart.so.13")
    user = elf.read((tmp_path / "user.so").read_bytes())
    assert "libcudart.so.13" in user.needed
    assert "use" in user.defines
    assert [(want.library, want.version) for want in user.wants if want.name == "cudaMalloc"] == [
        ("libcudart.so.13", "libcudart.so.13")
    ]


def test_the_same_symbols_give_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        built.append(stubs.build(CUDA, [Symbol("_ZN2at4cudaEv"), Symbol("_ZTIN2at1AE")], tmp_path / name))
    assert built[0] == built[1]
