"""Builds the wheel, installs it into an empty environment and uses it there.

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


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    # Without PYTHON* variables: PYTHONPATH could bring in the source tree.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=env, check=True)


def build_wheel() -> Path:
    dist = WORK / "dist"
    run(
        *(sys.executable, "-m", "pip", "wheel", ROOT, "--quiet", "--no-build-isolation"),
        *("--no-deps", "--wheel-dir", dist),
    )
    (wheel,) = dist.glob("fulgurite-*.whl")
    return wheel


def install(wheel: Path) -> Path:
    """Makes the environment; returns its interpreter."""
    folder = WORK / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    places = {"base": str(folder), "platbase": str(folder)}
    site_packages = Path(sysconfig.get_path("purelib", vars=places))
    # A plain path in a .pth file: the .pth files in that folder, one of which names the source
    # tree, are not read.
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-deps", "--no-index", "--ignore-installed", wheel),
    )
    return python


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel = build_wheel()
    print(f"built {wheel.name}, {wheel.stat().st_size / 1024:.0f} KiB")
    python = install(wheel)
    run(python, "-c", SMOKE, python.parent.parent, cwd=WORK)


if __name__ == "__main__":
    main()
