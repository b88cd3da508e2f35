"""Runs the gates over the checkout and prints what they object to.

Usage: scripts/check.py [GATE ...], all gates without one.
"""

import importlib
import sys
from pathlib import Path

from gates.tree import checkout

GATES = ("layers", "lengths", "op_names", "private_torch", "machine_paths", "format")


def main(names: list[str]) -> int:
    unknown = set(names) - set(GATES)
    if unknown:
        sys.exit(f"no gate {', '.join(sorted(unknown))}; there are {', '.join(GATES)}")
    tree = checkout(Path(__file__).resolve().parent.parent)
    failed = 0
    for name in names or GATES:
        violations = importlib.import_module(f"gates.{name}").check(tree)
        print(f"gate {name}: {f'{len(violations)} violations' if violations else 'ok'}")
        for violation in violations:
            print(f"  {violation}")
        failed += bool(violations)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
