"""What torch does not promise to keep is used in src/torch alone.

Three signs are looked for in the other rooms: a private member reached through an explicit template
instantiation, the name of such a member, and a dispatch key that torch keeps for itself.
"""

import re

from gates.cpp import code_alone, without_comments
from gates.tree import CPP, Tree, Violation, line_at

ROOM = "src/torch/"

# template struct Open<&c10::OperatorHandle::operatorDef_>;
INSTANTIATION = re.compile(r"\btemplate\s+(?:struct|class)\s+[\w:]+\s*<[^;{]*?&\s*[\w:]+::(\w+)")
OPENED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?:private|protected)\b", re.MULTILINE)
KEY = r"(?:Fake|PrivateUse[123]|TESTING_ONLY_\w+)"
RESERVED_KEY = re.compile(
    rf"\bDispatchKey::{KEY}\b|\bTORCH_LIBRARY_(?:IMPL|FRAGMENT)\s*\([^,()]*,\s*{KEY}\s*,"
)


def check(tree: Tree) -> list[Violation]:
    members = {
        m[1]
        for path in tree.select(*CPP, under=(ROOM,))
        for m in INSTANTIATION.finditer(code_alone(tree.read(path)))
    }
    member = re.compile(r"\b(?:" + "|".join(sorted(members)) + r")\b") if members else None
    violations: list[Violation] = []
    for path in tree.select(*CPP, under=("src/", "tests/", "bench/")):
        if path.startswith(ROOM):
            continue
        text = tree.read(path)
        code = code_alone(text)
        found = {m.start(): "reaches a private member" for m in INSTANTIATION.finditer(code)}
        found |= {
            m.start(): "opens private members" for m in OPENED.finditer(without_comments(text))
        }
        found |= {m.start(): "names a key that torch reserves" for m in RESERVED_KEY.finditer(code)}
        if member:
            found |= {m.start(): f"names torch's private {m[0]}" for m in member.finditer(code)}
        violations += [
            Violation(path, line_at(text, at), f"{what}; only {ROOM} may")
            for at, what in sorted(found.items())
        ]
    return violations
