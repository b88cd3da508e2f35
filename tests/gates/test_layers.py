import pytest

from gates import layers


def problems(tree, files):
    return [str(v) for v in layers.check(tree(files))]


def test_includes_of_earlier_rooms_pass(tree):
    files = {
        "src/base/error.h": "#include <string>\n",
        "src/ir/trace.h": '#include "base/error.h"\n',
        "src/ir/print.cpp": '#include "ir/trace.h"\n// #include "compile/pipeline.h"\n',
        "src/compile/pipeline.h": '#include "ir/trace.h"\n',
    }
    assert problems(tree, files) == []


def test_an_include_of_a_later_room_is_named(tree):
    files = {
        "src/ir/trace.h": '\n#include "compile/pipeline.h"\n',
        "src/compile/pipeline.h": "",
    }
    (problem,) = problems(tree, files)
    assert problem.startswith("src/ir/trace.h:2: ir may not include src/compile/pipeline.h")


@pytest.mark.parametrize(
    ("room", "included", "allowed"),
    [
        ("observe", "ir", True),
        ("observe", "ops", False),
        ("compile", "observe", True),
        ("bindings", "observe", True),
        ("runtime", "observe", False),
        ("pystate", "observe", False),
        ("codegen", "plugin", True),
        ("compile", "plugin", False),
        ("plugin", "ir", False),
        ("pystate", "compile", True),
        ("compile", "pystate", False),
    ],
)
def test_order(tree, room, included, allowed):
    files = {f"src/{room}/a.cpp": f'#include "{included}/b.h"\n', f"src/{included}/b.h": ""}
    assert (problems(tree, files) == []) == allowed


def test_an_include_relative_to_the_file_counts(tree):
    files = {"src/ir/trace.h": '#include "../ops/facts.h"\n', "src/ops/facts.h": ""}
    (problem,) = problems(tree, files)
    assert "ir may not include src/ops/facts.h" in problem


def test_a_circle_is_named_once(tree):
    files = {
        "src/ir/a.h": '#include "ir/b.h"\n',
        "src/ir/b.h": '#include "ir/c.h"\n',
        "src/ir/c.h": '#include "ir/a.h"\n',
        "src/ir/d.h": '#include "ir/a.h"\n',
    }
    (problem,) = problems(tree, files)
    assert problem == "src/ir/a.h: includes itself: " + " -> ".join(
        f"src/ir/{name}.h" for name in "abca"
    )


def test_a_diamond_is_no_circle():
    assert layers.circles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []


def test_a_file_in_no_room(tree):
    (problem,) = problems(tree, {"src/extras/a.h": ""})
    assert "is in none of the rooms" in problem


@pytest.mark.parametrize(
    ("path", "header", "allowed"),
    [
        ("src/capture/a.cpp", "Python.h", False),
        ("src/ir/a.cpp", "nanobind/nanobind.h", False),
        ("src/runtime/a.cpp", "torch/csrc/autograd/python_variable.h", False),
        ("src/runtime/a.cpp", "torch/csrc/autograd/function.h", True),
        ("src/bindings/a.cpp", "nanobind/nanobind.h", True),
        ("src/bindings/a.cpp", "internal/pycore_frame.h", False),
        ("src/pystate/a.cpp", "internal/pycore_frame.h", True),
    ],
)
def test_python_stays_in_its_rooms(tree, path, header, allowed):
    assert (problems(tree, {path: f"#include <{header}>\n"}) == []) == allowed
