import pytest

from gates import machine_paths

# Put together here, so that this file passes the gate itself.
FOLDERS = ["/" + name + "/thing" for name in ("home", "root", "work", "opt", "Users")]
HOSTS = ["pypi" + ".org", "download" + ".pytorch.org", "registry" + ".npmjs.org"]


@pytest.mark.parametrize("word", FOLDERS + HOSTS)
def test_found_in_any_text(tree, word):
    for path in ("docs/a.md", "Makefile", "src/ir/a.h"):
        (violation,) = machine_paths.check(tree({path: f"one\ntwo {word}/x\n"}))
        assert (violation.path, violation.line) == (path, 2)


@pytest.mark.parametrize(
    "text",
    [
        "/home/me/model.py",
        "$HOME/x",
        "build/work/x",
        "https://example.com/home/x",
        "/usr/bin/env bash",
        "and/or",
    ],
)
def test_other_paths_pass(tree, text):
    assert machine_paths.check(tree({"docs/a.md": text})) == []


def test_binary_files_are_skipped(tree):
    assert machine_paths.check(tree({"docs/a.png": "\0" + FOLDERS[0]})) == []
