import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gates import format as format_gate

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def styled(tree, tmp_path):
    """A tree with the repository's own style files."""
    for name in (".clang-format", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tree


def test_formatted_files_pass(styled):
    files = {"src/ir/a.h": "#pragma once\n\nint f(int x);\n", "python/a.py": "x = 1\n"}
    assert format_gate.check(styled(files)) == []


def test_unformatted_files_are_named_once(styled):
    files = {
        "src/ir/a.h": "int f( int x );\nint  g();\n",
        "python/a.py": "x   = 1\ny   = 2\n",
        "python/b.py": "x = 1\n",
    }
    found = format_gate.check(styled(files))
    assert [(v.path, v.text) for v in found] == [
        ("src/ir/a.h", "is not formatted: make format"),
        ("python/a.py", "is not formatted: make format"),
    ]


def test_what_ruff_finds_is_shown(styled):
    (violation,) = format_gate.check(styled({"python/a.py": "import os\n"}))
    assert (violation.path, violation.line) == ("python/a.py", 1)
    assert "F401" in violation.text


def test_a_tool_that_fails_otherwise_is_an_error(styled, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nno-such-setting = 1\n")
    with pytest.raises(SystemExit, match="ruff failed"):
        format_gate.check(styled({"python/a.py": "x = 1\n"}))


def test_the_runner_refuses_unknown_gates():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check.py", "no_such_gate"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"no gate no_such_gate" in done.stderr
