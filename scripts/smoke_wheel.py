"""Builds the wheels, installs them into an empty environment and uses them there: fulgurite alone
first, then with fulgurite-clang.

torch and its dependencies are not installed again: the new environment sees the site-packages of
the one that runs this script. fulgurite itself must come from the wheel.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheel-smoke"

# Runs in the new environment, with the folder of that environment as its only argument.
SMOKE = """
import pathlib, sys
import fulgurite, torch
folder = pathlib.Path(sys.argv[1]).resolve()
for path in (fulgurite.__file__, fulgurite._C.__file__):
    assert folder in pathlib.Path(path).resolve().parents, f"{path} is not from the wheel"
assert folder not in pathlib.Path(torch.__file__).resolve().parents, "torch was installed again"
package = pathlib.Path(fulgurite.__file__).parent
assert (package / "py.typed").exists() and (package / "_C.pyi").exists(), "no type stubs"
if hasattr(fulgurite, "jit"):
    x = torch.arange(4.0)
    assert torch.equal(fulgurite.jit(lambda a: (a + 1) * a)(x), (x + 1) * x)
print("fulgurite", fulgurite.__version__, "from the wheel works with torch", torch.__version__)
"""

# Each runs in a process of its own, in this order.
WITHOUT_COMPILER = """
import fulgurite, torch
from fulgurite import _C
assert _C.compile_kernel("", "kernel") is None
assert "libfulgurite_clang.so" in _C.missing_compiler()
assert "fulgurite-clang" in _C.missing_compiler_warning()
assert torch.equal(fulgurite.jit(torch.sin)(torch.ones(2)), torch.sin(torch.ones(2)))
print("without fulgurite-clang:", _C.missing_compiler())
"""
WITH_COMPILER = """
import ctypes, pathlib, sys
from fulgurite import _C
kernel = _C.compile_kernel("extern \\"C\\" int twice(int x) { return x + x; }", "twice")
assert kernel, _C.missing_compiler()
assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(kernel.address)(21) == 42
loaded = "libfulgurite_clang.so" in pathlib.Path("/proc/self/maps").read_text()
assert loaded != kernel.from_disk
print("with fulgurite-clang:", "found on disk" if kernel.from_disk else "compiled",
      f"in {sum(kernel.milliseconds.values()):.2f} ms")
sys.exit(kernel.from_disk != (sys.argv[1] == "again"))
"""


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    # Without PYTHON* variables: PYTHONPATH could bring in the source tree. Without ours, which name
    # a plugin, say.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FULGURITE_"))}
    env["FULGURITE_CACHE_DIR"] = str(WORK / "cache")
    subprocess.run([str(part) for part in command], cwd=cwd, env=env, check=True)


def build_wheels() -> tuple[Path, Path]:
    dist = WORK / "dist"
    run(
        *(sys.executable, "-m", "pip", "wheel", ROOT, ROOT / "src" / "plugin", "--quiet"),
        *("--no-build-isolation", "--no-deps", "--wheel-dir", dist),
    )
    (wheel,) = dist.glob("fulgurite-*.whl")
    (plugin,) = dist.glob("fulgurite_clang-*-py3-none-*.whl")
    return wheel, plugin


def make_environment() -> Path:
    """Returns its interpreter."""
    folder = WORK / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    places = {"base": str(folder), "platbase": str(folder)}
    site_packages = Path(sysconfig.get_path("purelib", vars=places))
    # A plain path in a .pth file: the .pth files in that folder, one of which names the source
    # tree, are not read.
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python: Path, wheel: Path) -> None:
    print(f"built {wheel.name}, {wheel.stat().st_size / 1024:.0f} KiB", flush=True)
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-deps", "--no-index", "--ignore-installed", wheel),
    )


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel, plugin = build_wheels()
    python = make_environment()
    install(python, wheel)
    run(python, "-c", SMOKE, python.parent.parent, cwd=WORK)
    run(python, "-c", WITHOUT_COMPILER, cwd=WORK)
    install(python, plugin)
    run(python, "-c", WITH_COMPILER, "first", cwd=WORK)
    run(python, "-c", WITH_COMPILER, "again", cwd=WORK)


if __name__ == "__main__":
    main()
