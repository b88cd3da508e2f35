"""Passes of the user's own, and traces made from text."""

import contextlib
import dataclasses
import difflib
import traceback
from collections.abc import Callable

from fulgurite import _C
from fulgurite._arguments import Places
from fulgurite._C import Trace, Unsupported, UserError
from fulgurite._outputs import Outputs

DEFAULT_PLACE = "Dead Code Elimination"


@dataclasses.dataclass(frozen=True)
class Transform:
    """A pass of the user's own: `run(trace)` gives a trace.

    It runs on each compilation, before or after the pass of that name, and its trace is in
    `last_traces` under `name`, which is that of the function if none is given. The trace is
    verified: UserError names the transform, and the line that is at fault.
    """

    run: Callable[[Trace], Trace]
    before: str | None = None
    after: str | None = None
    name: str | None = None

    def __post_init__(self):
        if not callable(self.run):
            raise UserError(f"a transform is a function from trace to trace, got {self.run!r}")
        if self.before is not None and self.after is not None:
            raise UserError(f"the transform {self.shown_name} is both before and after a pass")
        if self.shown_name in _C.pass_names():
            raise UserError(f"a transform cannot be named as a pass is: {self.shown_name!r}")
        place = self.before or self.after
        if place is not None and place not in _C.pass_names():
            near = difflib.get_close_matches(place, _C.pass_names(), 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UserError(
                f"the transform {self.shown_name} is placed at {place!r}, which is no pass; {hint}"
                f"The passes are {', '.join(_C.pass_names())}."
            )

    @property
    def shown_name(self):
        return self.name or getattr(self.run, "__name__", None) or type(self.run).__name__

    def described(self):
        """As the extension takes it: (name, pass, whether before it, function)."""
        before = self.after is None
        place = (self.before or DEFAULT_PLACE) if before else self.after
        return self.shown_name, place, before, self._checked

    def _checked(self, trace):
        try:
            made = self.run(trace)
        except Unsupported as error:
            raise UserError(f"the transform {self.shown_name}: {error}") from error
        except Exception as error:
            error.add_note(f"raised in the transform {self.shown_name} of fulgurite.jit")
            raise
        if not isinstance(made, Trace):
            raise UserError(
                f"the transform {self.shown_name} returned a {type(made).__name__}; it has to "
                "return a Trace (the one that it got, where there is nothing to do)"
            )
        return made


def as_transforms(given):
    """`Transform`s from themselves and from plain functions."""
    transforms = tuple(t if isinstance(t, Transform) else Transform(t) for t in given)
    names = [transform.shown_name for transform in transforms]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"two transforms have the name {name!r}; give one another: "
                "fulgurite.Transform(run, name=...)"
            )
    return transforms


def with_text(trace, text):
    """The trace of an edited program: `text` is that of `trace` (see Trace.text), changed.

    It has to take the same inputs and to return as many tensors. It is run, so use it on text that
    you trust.
    """
    scope, file = {}, f"<{trace.name}>"
    with _faults_of(text, file):
        exec(compile(text, file, "exec"), scope)
    if trace.name not in scope:
        raise UserError(f"the text defines no function {trace.name!r}")

    def program(*inputs):
        with _faults_of(text, file):
            result = scope[trace.name](*inputs)
        return Outputs(result, lambda value: False, Places()).tensors

    return trace.retrace(program)


@contextlib.contextmanager
def _faults_of(text, file):
    """Errors of the text become UserErrors that name its line."""
    try:
        yield
    except SyntaxError as error:
        raise UserError(f"the text is no Python: {error.msg}{_line(text, error.lineno)}") from error
    except (Exception, SystemExit) as error:
        steps = [
            step for step in traceback.extract_tb(error.__traceback__) if step.filename == file
        ]
        line = _line(text, steps[-1].lineno if steps else None)
        what = "" if isinstance(error, UserError) else f"the text raised {type(error).__name__}: "
        raise UserError(f"{what}{error}{line}") from error


def _line(text, number):
    lines = text.splitlines()
    if not number or number > len(lines):
        return ""
    return f"\n  in line {number}: {lines[number - 1].strip()}"
