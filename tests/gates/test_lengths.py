import textwrap

import pytest

from gates import cpp, lengths

CPP = r"""
#define TWO_BRACES { \
  {
namespace fulgurite {
namespace {

// not a function() {
enum class Kind : int { A, B };

struct Point {
  int x{0};
  int y = f({1, 2});
  int sum() const { return x + y; }
  template <class T>
  auto scaled(T by) const noexcept -> decltype(by * 2) {
    return by * x;
  }
};

const char* const kSource = R"(
void printed() {
  {
)";

constexpr auto kTable = std::array{
    record({.name = "add", .eval = [](auto a, auto b) { return a + b; }}),
    record({.name = "neg",
            .eval =
                [](auto a) {
                  return -a;
                }}),
};

}  // namespace

Plan::Plan(int n)
    : slots_{n}, size_(1'000) {
  for (int i = 0; i < n; ++i) {
    use([&] { return '{'; });
  }
}

bool operator==(const Point& a, const Point& b) {
  return a.x == b.x;
}

const bool registered = [] {
  add();
  return true;
}();

TEST_CASE("a brace { in a string") {
  struct Local { int n; };
}
}  // namespace fulgurite
"""


def test_functions_are_found_and_measured():
    found = {f.name: f.lines for f in cpp.functions(CPP)}
    assert found == {
        "sum": 1,
        "scaled": 4,
        "lambda": 4,
        "Plan::Plan": 6,
        "operator==": 3,
        "TEST_CASE": 3,
    }


def test_lambdas_of_a_table_are_functions_of_their_own():
    assert [f.name for f in cpp.functions(CPP)].count("lambda") == 3


def test_first_line_is_that_of_the_name():
    (function,) = cpp.functions("int a;\n\nstatic int\nanswer() {\n  return 42;\n}\n")
    assert (function.name, function.first, function.last) == ("answer", 3, 6)


@pytest.mark.parametrize(
    "head",
    [
        "void f()",
        "template <class T, class = std::enable_if_t<(sizeof(T) > 1)>>\nvoid f(T)",
        "std::vector<int> Outer::f(std::function<void(int)> g) const&",
        "[[nodiscard]] constexpr bool f(int (&a)[3]) noexcept(noexcept(g()))",
        "auto f(int x) -> std::optional<int>",
        "template <class T>\n  requires std::is_same_v<T, int>\nvoid f(T)",
        'extern "C" int f(void)',
    ],
)
def test_forms_of_functions(head):
    body = " {\n" + "  g();\n" * 10 + "}\n"
    (function,) = cpp.functions(head + body)
    assert function.lines == 12 + head.count("\n")


def test_a_long_function_is_named(tree):
    body = "  g();\n" * (lengths.FUNCTION_LINES - 2)
    files = {"src/ir/a.cpp": f"void fits() {{\n{body}}}\n\nvoid is_long() {{\n{body}\n}}\n"}
    (violation,) = lengths.check(tree(files))
    assert str(violation) == "src/ir/a.cpp:82: is_long has 81 lines; the cap is 80"


def test_a_long_python_function_is_named(tree):
    body = "    g()\n" * lengths.FUNCTION_LINES
    (violation,) = lengths.check(tree({"tests/test_a.py": f"x = 1\n\n\ndef f():\n{body}"}))
    assert str(violation) == "tests/test_a.py:4: f has 81 lines; the cap is 80"


@pytest.mark.parametrize("name", ["src/ir/a.h", "python/a.py"])
def test_a_long_file_is_named(tree, name):
    fits, too_long = "\n" * lengths.FILE_LINES, "\n" * (lengths.FILE_LINES + 1)
    assert lengths.check(tree({name: fits})) == []
    (violation,) = lengths.check(tree({"x/" + name: too_long}))
    assert str(violation) == f"x/{name}: has 601 lines; the cap is 600"


def test_names_that_say_nothing(tree):
    violations = lengths.check(tree({"src/ir/utils.h": "", "src/ir/utility.h": ""}))
    assert [v.path for v in violations] == ["src/ir/utils.h"]


def test_comments_and_strings_keep_their_places():
    text = 'a /* {\n */ "b{" // }\nR"x(\n{)x";'
    blanked = cpp.code_alone(text)
    assert len(blanked) == len(text)
    assert [i for i, c in enumerate(blanked) if c == "\n"] == [
        i for i, c in enumerate(text) if c == "\n"
    ]
    assert "{" not in blanked
    assert textwrap.dedent(blanked).startswith("a ")
