import pytest

from gates.tree import Tree


@pytest.fixture
def tree(tmp_path):
    """Makes a tree of files: tree({"src/ir/trace.h": "..."})."""

    def make(files: dict[str, str]) -> Tree:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return Tree(tmp_path, tuple(files))

    return make
