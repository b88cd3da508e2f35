"""The package as users and their tools see it."""

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fulgurite
from fulgurite import _C, _torch_version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version_is_the_one_of_cmake():
    text = (ROOT / "CMakeLists.txt").read_text()
    assert fulgurite.__version__ == re.search(r"project\(fulgurite VERSION (\S+)", text)[1]


def test_torch_version_is_the_one_of_pyproject():
    assert PROJECT["dependencies"] == [f"torch=={_torch_version.REQUIRED}.*"]
    pinned = (ROOT / "requirements-torch.txt").read_text()
    assert re.search(rf"^torch=={_torch_version.REQUIRED}\.\d+$", pinned, re.MULTILINE)


def test_python_version_is_this_one():
    assert PROJECT["requires-python"] == "=={}.{}.*".format(*sys.version_info)


def test_pins_agree():
    """requirements-dev.txt and the build requirements of the wheel."""
    pinned = set((ROOT / "requirements-dev.txt").read_text().split())
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {r for r in build if not r.startswith("torch")} <= pinned


@pytest.mark.parametrize("found", ["2.12.1", "2.14.0+cu130", "2.1.3"])
def test_another_torch_is_refused(monkeypatch, found):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found)
    with pytest.raises(ImportError, match=re.escape(found)) as raised:
        _torch_version.check_torch()
    assert f"pip install 'torch=={_torch_version.REQUIRED}.*'" in str(raised.value)


def test_no_torch_is_refused(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import fulgurite"
    done = subprocess.run(
        # -S: without site-packages, and so without torch.
        [sys.executable, "-S", "-E", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: fulgurite needs torch" in done.stderr
    assert "pip install" in done.stderr


def test_stub_has_every_name():
    package = Path(fulgurite.__file__).parent
    assert (package / "py.typed").exists()
    stub = ast.parse((package / "_C.pyi").read_text())
    assert _missing(stub.body, _C) == set()


def test_stub_check_can_fail():
    assert _missing(ast.parse("def listed(): ...").body, _C) >= {
        name for name in vars(_C) if not name.startswith("_")
    }


def _missing(body, scope) -> set[str]:
    """Public names of `scope` that the stub does not declare, with those of its classes."""
    declared = {name: node for node in body for name in _names(node)}
    missing = set()
    for name, value in vars(scope).items():
        if name.startswith("_"):
            continue
        if name not in declared:
            missing.add(name)
        elif isinstance(value, type) and isinstance(declared[name], ast.ClassDef):
            missing |= {f"{name}.{m}" for m in _missing(declared[name].body, value)}
    return missing


def _names(node) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return []
