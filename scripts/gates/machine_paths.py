"""Nothing in the repository speaks of one machine: no home folders, no registries' hosts.

A comment that needs an example writes /home/me.
"""

import re

from gates.tree import Tree, Violation, line_at

FOLDER = re.compile(r"(?<![\w.$}:)/-])/(?:home(?!/me\b)|root|work|opt|mnt|Users|private)/[\w.]")
HOST = re.compile(
    r"\b(?:pypi\.(?:org|python)|pythonhosted\.|download\.pytorch\.|registry\.npmjs\.|"
    r"(?:deb|security|ftp)\.debian\.|archive\.ubuntu\.)"
)


def check(tree: Tree) -> list[Violation]:
    violations: list[Violation] = []
    for path in tree.paths:
        text = tree.read(path)
        if "\0" in text:
            continue
        for pattern, what in ((FOLDER, "a machine's path"), (HOST, "a registry's host")):
            violations += [
                Violation(path, line_at(text, m.start()), f"names {what}: {m[0]}")
                for m in pattern.finditer(text)
            ]
    return violations
