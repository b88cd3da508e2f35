"""The Python in README and docs runs, and prints what the pages say it prints.

In each page the blocks marked `python` run in order, in one namespace; a `text` block right after
one is what it prints. Times, which differ from run to run, are compared as `#.#`.
"""

import contextlib
import io
import itertools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def steps(page):
    """(line number, code, expected output or None) of each Python block."""
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    for block, following in itertools.zip_longest(blocks, blocks[1:]):
        if block[1] != "python":
            continue
        printed = None
        if following is not None and following[1] == "text":
            gap = text[block.end() : following.start()]
            printed = following[2] if gap.strip() in ("", "prints") else None
        yield text[: block.start()].count("\n") + 2, block[2], printed


def without_times(text):
    text = re.sub(r"\d+\.\d+ (ms|milliseconds|us)", r"#.# \1", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_page(page):
    namespace = {"__name__": "__main__"}
    for line, code, expected in steps(page):
        out = io.StringIO()
        source = "\n" * (line - 1) + code
        with contextlib.redirect_stdout(out):
            exec(compile(source, str(page), "exec"), namespace)
        if expected is not None:
            assert without_times(out.getvalue()) == without_times(expected), f"{page}:{line}"
