"""The compiler plugin as a library that is to run on other systems, beside other libraries."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from fulgurite import _C

PLUGIN = Path(__file__).resolve().parents[2] / "src" / "plugin"
# The floor of torch's own wheels.
NEWEST_GLIBC = (2, 28)

needs_plugin = pytest.mark.skipif(bool(_C.missing_compiler()), reason=_C.missing_compiler())


@pytest.fixture(scope="module")
def library() -> str:
    """The path of the plugin in use."""
    _C.compile_kernel('extern "C" int loads_the_plugin() { return 1; }', "loads_the_plugin")
    maps = Path("/proc/self/maps").read_text()
    return re.search(r"(/\S+/libfulgurite_clang\.so)$", maps, re.MULTILINE)[1]


def readelf(*arguments: str) -> str:
    if not shutil.which("readelf"):
        pytest.skip("needs readelf, of binutils")
    return subprocess.check_output(["readelf", "--wide", *arguments], text=True)


@pytest.mark.skipif(not shutil.which("llvm-config-19"), reason="no LLVM to build it from")
def test_is_here():
    """Else all tests of kernels would be skipped in silence."""
    assert _C.missing_compiler() == ""


@needs_plugin
def test_exports_one_symbol(library):
    rows = [line.split() for line in readelf("--dyn-syms", library).splitlines()]
    defined = [r[7] for r in rows if len(r) > 7 and r[0][:-1].isdigit() and r[6] != "UND"]
    assert defined == ["fulgurite_clang_v1"]


@needs_plugin
def test_needs_an_old_glibc_and_nothing_else(library):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", library))
    assert set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("--version-info", library))
    assert versions and max((int(a), int(b)) for a, b in versions) <= NEWEST_GLIBC
    assert "RPATH" not in readelf("--dynamic", library)


def test_version_starts_with_that_of_llvm():
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    assert re.fullmatch(r"19\.1\.\d+\.\d+", project["version"])


def test_its_package_needs_no_torch():
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    assert "dependencies" not in project
    assert {"LICENSE", "NOTICE"} == set(project["license-files"])
    assert "As an exception" in (PLUGIN / "NOTICE").read_text()
