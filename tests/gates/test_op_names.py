import pytest

from gates import op_names


def problems(tree, path, text):
    return [str(v) for v in op_names.check(tree({path: text}))]


def test_aten_is_known():
    assert {"add", "mul", "linear", "_softmax"} <= op_names.aten_names()
    assert not op_names.is_operator("fulgurite")
    assert op_names.is_operator("add.Tensor")
    assert op_names.is_operator("aten::add_.Tensor")


def test_a_few_names_pass(tree):
    text = 'auto a = find_op("aten::add"), b = find_op("aten::mul"), c = find_op("aten::mul");'
    assert problems(tree, "src/passes/a.cpp", text) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/passes/a.cpp", 'f("aten::{}");'),
        ("src/passes/a.cpp", "at::_ops::{}::call(a);"),
        ("python/fulgurite/a.py", "torch.ops.aten.{}(a)"),
        ("python/fulgurite/a.py", 'find("aten::{}")'),
    ],
)
def test_many_full_names_are_a_list(tree, path, line):
    text = "\n".join(line.format(name) for name in ("add", "mul", "sub", "div")) + "\n"
    assert problems(tree, path, text) == [
        f"{path}: names 4 operators, 3 may be: add, div, mul, sub"
    ]


def test_a_pass_looks_up_what_it_writes(tree):
    names = sorted(op_names.aten_names())[: op_names.LOOKED_UP_PER_FILE + 1]
    lines = [f'auto {name} = find_op("aten::{name}");' for name in names]
    text = (
        "namespace {\nvoid f() {\n  static const " + "\n".join(lines[:-1]).replace(";", ",") + "\n"
    )
    text += "      last = 0;\n}\n}\n"
    assert problems(tree, "src/passes/a.cpp", text) == []
    (problem,) = problems(tree, "src/passes/a.cpp", text + lines[-1])
    assert problem.startswith("src/passes/a.cpp: looks up 17 operators, 16 may be")


def test_a_list_of_what_is_looked_up_is_a_list(tree):
    names = ", ".join(f'find_op("aten::{name}")' for name in ("add", "mul", "sub", "div"))
    (problem,) = problems(tree, "src/passes/a.cpp", f"const std::array kOps{{{names}}};\n")
    assert problem.startswith("src/passes/a.cpp:1: lists operators")


def test_blocks_are_no_lists(tree):
    text = (
        'void f() {\n  if (a) {\n    g("add");\n    g("mul");\n  }\n  g("sub");\n  g("div");\n}\n'
    )
    assert problems(tree, "src/passes/a.cpp", f"namespace {{\n{text}}}\n") == []


def test_comments_do_not_count(tree):
    text = "// aten::add aten::mul aten::sub aten::div\n"
    assert problems(tree, "src/passes/a.cpp", text) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/passes/a.cpp", '\nconst std::set<std::string> kOps{"add", "mul", "sub", "div"};'),
        ("src/passes/a.cpp", '\nMap m = {{"add", f}, {"mul", g}, {"sub", h}, {"div", i}};'),
        (
            "src/passes/a.cpp",
            'void f() {\n  return n == "add" || n == "mul" || n == "sub" || n == "div";\n}',
        ),
        ("python/fulgurite/a.py", '\nOPS = ["add", "mul", "sub", "div"]'),
        ("python/fulgurite/a.py", '\nOPS = {"add": f, "mul": g, "sub": h, "div": i}'),
        (
            "python/fulgurite/a.py",
            '\nuse(n == "add" or n == "mul" or n == "sub" or n == "div")',
        ),
    ],
)
def test_a_list_of_bare_names(tree, path, text):
    assert problems(tree, path, text) == [f"{path}:2: lists operators: add, div, mul, sub"]


def test_other_strings_are_no_list(tree):
    text = 'fields = {"size": 1, "stride": 2, "values": 3, "range": 4, "dtype": 5, "kind": 6,'
    text += ' "offset": 7, "device": 8, "layout": 9}'
    assert problems(tree, "python/fulgurite/a.py", text) == []


def test_the_catalogue_and_the_tests_may_list(tree):
    text = 'const char* kOps[] = {"add", "mul", "sub", "div"};'
    assert problems(tree, "src/ops/pointwise.cpp", text) == []
    assert problems(tree, "tests/unit/a.cpp", text) == []


def test_a_table_names_the_script_that_writes_it(tree):
    table = '{"add", "torch.add"},\n'
    assert (
        op_names.check(
            tree(
                {
                    "scripts/w.py": "",
                    "src/ir/t.inc": "// Written by scripts/w.py for torch.\n" + table,
                }
            )
        )
        == []
    )
    for head in ("", "// Written by scripts/gone.py\n"):
        (problem,) = problems(tree, "src/ir/t.inc", head + table)
        assert problem.startswith("src/ir/t.inc:1: does not begin")
