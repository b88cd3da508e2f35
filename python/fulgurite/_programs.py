"""Printed programs about live objects: the prologue and the epilogue of an entry."""

import builtins
import keyword
import re
import textwrap

import torch

from fulgurite import checks
from fulgurite._C import same_constant

_GONE = object()
_WIDTH = 100
_LONGEST_BYTES = 8  # from there on they may be addresses
_LITERALS = (bool, int, str, type(None), type(Ellipsis))


class Program:
    """One step of an entry as a Python program.

    str() and text() are complete: they name the objects that the program is about by words, and
    `python_ctx()` has those objects. `python_callable()` runs the text with them.
    """

    def __init__(self, name, provenance):
        self.name, self.provenance = name, provenance
        self._lines, self._objects, self._words = [], {}, set()
        self._known, self._taken = {}, {name, "torch", "args", "kwargs"}

    def __str__(self):
        return self.text()

    def __repr__(self):
        return f"<fulgurite program {self.name} of {len(self._lines)} lines>"

    def text(self):
        head = f"# Constructed by {self.provenance}\nimport torch\n"
        if self._words:
            words = ", ".join(sorted(self._words))
            if len(words) > _WIDTH - 30:
                words = f"(\n{textwrap.indent(textwrap.fill(words, _WIDTH - 4), '    ')}\n)"
            head += f"from fulgurite.checks import {words}\n"
        return head + "\n" + "\n".join(self._lines) + "\n"

    def python_ctx(self):
        """{word: object} for the objects that the text names."""
        return dict(self._objects)

    def python_callable(self):
        """The function that the text defines."""
        scope = self.python_ctx()
        exec(compile(self.text(), f"<{self.name}>", "exec"), scope)
        return scope[self.name]

    # For those who write a program.

    def line(self, text, indent=1):
        self._lines.append("  " * indent + text)

    def word(self, name):
        """A function of fulgurite.checks, which the program imports."""
        self._words.add(name)
        return name

    def fresh(self, wish):
        """A variable named like `wish`."""
        base = re.sub(r"\W+", "_", str(wish)).strip("_") or "object"
        base = f"_{base}" if base[0].isdigit() else base
        name, count = base, 1
        while name in self._taken or keyword.iskeyword(name) or _is_used(name):
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name

    def object(self, value, wish):
        """The word for a live object; None where it is gone."""
        key = id(value)
        if key not in self._known:
            name = self.fresh(wish)
            self._known[key] = name
            self._objects[name] = value
        return self._known[key]

    def gone(self, wish):
        """The word for an object that is no more: nothing is identical to it."""
        name = self.fresh(wish)
        self._objects[name] = _GONE
        return name

    def kind(self, kind):
        """The word for a class."""
        if getattr(builtins, kind.__name__, None) is kind:
            return kind.__name__
        return self.object(kind, kind.__name__)

    def literal(self, value, wish="constant"):
        """A constant as text, or the word for it."""
        kind = type(value)
        if kind is tuple:
            items = [self.literal(item, wish) for item in value]
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        if kind in _LITERALS or (kind is bytes and len(value) < _LONGEST_BYTES):
            return repr(value)
        if kind in (float, complex) and _reads_back(value):
            return repr(value)
        if kind.__module__ == "torch" and getattr(torch, str(value)[6:], None) is value:
            return str(value)  # torch.float32
        return self.object(value, wish)


def _is_used(name):
    return hasattr(builtins, name) or hasattr(checks, name)


def _reads_back(value):
    try:
        return same_constant(eval(repr(value), {}), value)
    except (NameError, SyntaxError):  # nan, inf
        return False


def containers_among_arguments(record):
    """{number: [expression, ...]}: where a call has the containers that its entry must find."""
    found = {}
    for argument, steps, number in record.places:
        text = f"args[{argument}]" if isinstance(argument, int) else f"kwargs[{argument!r}]"
        for kind, key in steps:
            text += (f"[{key!r}]", f".{key}", ".__dict__")[kind]
        found.setdefault(number, []).append(text)
    return dict(sorted(found.items()))
