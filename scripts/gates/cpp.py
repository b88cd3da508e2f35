"""As much of C++ as the gates need: strings, comments and where functions begin and end."""

import re
from dataclasses import dataclass

from gates.tree import line_at

TOKEN = re.compile(
    r"""
      (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    | (?P<raw>R"(?P<mark>[^()\\\s]{0,16})\((?P<raw_body>.*?)\)(?P=mark)")
    | (?P<string>"(?P<body>(?:\\.|[^"\\\n])*)")
    | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
    """,
    re.DOTALL | re.VERBOSE,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


@dataclass(frozen=True)
class Literal:
    text: str
    offset: int


@dataclass(frozen=True)
class Function:
    name: str
    first: int  # lines, from that of the name to that of the closing brace
    last: int

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """The text with comments blanked; every character keeps its place."""
    return TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)


def code_alone(text: str) -> str:
    """The text with comments, the insides of strings, and directives blanked."""

    def blank(m: re.Match[str]) -> str:
        return _blank(m[0]) if m["comment"] else m[0][0] + _blank(m[0][1:-1]) + m[0][-1]

    return DIRECTIVE.sub(lambda m: _blank(m[0]), TOKEN.sub(blank, text))


def literals(text: str) -> list[Literal]:
    found = []
    for m in TOKEN.finditer(text):
        if m["string"] or m["raw"]:
            found.append(Literal(m["raw_body"] or m["body"] or "", m.start()))
    return found


# What may stand between the parameters of a function and its body.
_SUFFIX = r"""
    (?: \b(?:const|volatile|noexcept|override|final|mutable|constexpr|consteval|static|try)\b
      | \bnoexcept\s*\([^{};]*\) | && | & | ->[^{};=]+ | \brequires\b[^{};]+ | \s )*
"""
_PARAMETERS_LAST = re.compile(
    rf"\){_SUFFIX}(?: (?<!:):(?!:) .* [)}}] \s* )?$", re.DOTALL | re.VERBOSE
)
_LAMBDA = re.compile(
    rf"(?:^|[=(,{{?:]|\breturn\b)\s*\[[^\[\]]*\]\s*(?:<[^{{}};]*>\s*)?(?:\(.*\))?{_SUFFIX}$",
    re.DOTALL | re.VERBOSE,
)
# What opens a block inside of a function, rather than a list of values.
_BLOCK = re.compile(rf"(?:\){_SUFFIX}|\b(?:else|do|try)\s*|:\s*|^\s*)$", re.VERBOSE)
_NAMESPACE = re.compile(r'^\s*(?:inline\s+)?namespace\b|^\s*extern\s*"\s*"\s*$')
_RECORD = re.compile(r"\b(?:class|struct|union)\b")
_TEMPLATE = re.compile(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
_ACCESS = re.compile(r"^(?:\s*(?:public|private|protected)\s*:(?!:))+")
_NAME = re.compile(r"(operator\s*\S+?|[\w:~]+)\s*\(")


@dataclass(frozen=True)
class Braces:
    """One pair of braces."""

    kind: str  # scope, function (the outermost body), block (inside of a function) or list
    head: int  # offset where what stands before the opening brace begins
    opened: int
    closed: int


def _kind(head: str, in_function: bool, in_scope: bool) -> str:
    head = _TEMPLATE.sub("", head)
    body = "block" if in_function else "function"
    if _LAMBDA.search(head):
        return body
    if in_function:
        return body if _BLOCK.search(head) or _RECORD.search(head) else "list"
    if in_scope:
        if _NAMESPACE.search(head):
            return "scope"
        if _PARAMETERS_LAST.search(head):
            return body
        if _RECORD.search(head):
            return "scope"
    return "list"


def braces(code: str) -> list[Braces]:
    """The braces of `code`, which is what `code_alone` makes, inner ones first."""
    found: list[Braces] = []
    stack: list[tuple[str, int, int]] = []  # kind, head, offset of the brace
    head = 0
    for mark in re.finditer(r"[{};]", code):
        at = mark.start()
        outer = [kind for kind, _, _ in stack]
        if mark[0] == "{":
            in_scope = not outer or outer[-1] == "scope"
            kind = _kind(code[head:at], "function" in outer, in_scope)
            stack.append((kind, head, at))
            head = at + 1
        elif mark[0] == "}" and stack:
            kind, opened, brace = stack.pop()
            found.append(Braces(kind, opened, brace, at))
            # After an initialiser the head goes on: `Plan() : slots_{} {`.
            head = opened if kind == "list" else at + 1
        elif mark[0] == ";":
            head = at + 1
    return found


def functions(text: str) -> list[Function]:
    """The outermost function bodies, those of lambdas in initialisers included."""
    code = code_alone(text)
    return [_function(code, b) for b in braces(code) if b.kind == "function"]


def _function(code: str, body: Braces) -> Function:
    head = body.head + len((_ACCESS.match(code[body.head : body.opened]) or [""])[0])
    text = code[head : body.opened]
    start = head + len(text) - len(text.lstrip())
    name = _NAME.search(_TEMPLATE.sub("", text))
    first, last = line_at(code, start), line_at(code, body.closed)
    return Function(name[1] if name else "lambda", first, last)
