"""Rewrite patterns: find this sub-program, put that one."""

import dataclasses
import inspect
import math
import os

import torch

from fulgurite import _C
from fulgurite._C import TraceValue, Unsupported, UserError
from fulgurite._matching import Shape, Uses, matches_of

_KEPT = 1000


@dataclasses.dataclass(frozen=True)
class Match:
    """A place of a trace where a pattern was found.

    calls: in order. inputs: what takes the place of the tensors of `find`, in order. outputs: of
    what it returns. numbers: {name: number} of its parameters that are numbers.
    """

    calls: tuple
    inputs: tuple
    outputs: tuple
    numbers: dict

    @property
    def line(self):
        """ "file.py:12" of the last call; "" where it is not known."""
        source = self.calls[-1].source
        return f"{os.path.basename(source[0])}:{source[1]}" if source else ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What became of a place where the last call of a pattern was met.

    line: of the user's program. call: as printed. reason: why it stayed; "" where it was replaced.
    """

    line: str
    call: str
    reason: str

    def __str__(self):
        return f"{self.line or '?'}: {self.call}: {self.reason or 'replaced'}"


class Pattern:
    """A transform that puts one sub-program in the place of another.

    find, put: functions over the same tensors; a parameter of find with a number as its default
    stands for any number of that kind, and put gets what was found, by that name. Both return a
    tensor or a tuple of them. where(match): whether to replace a Match that is sound:
    True, or False, or a str that says why not. inputs: example tensors that `find` can be run on to
    see its calls, float32 of shape (2, 2) if none are given; what is matched may have other types.

    After a compilation, `replaced` is how many places were, and `findings` has each place where its
    last call was met, the first 1000.

    A place is left alone, with a reason in `findings`, unless the calls there are those that `find`
    makes on these very tensors, `put` gives tensors of the same types and has no effects, nothing
    else uses what is made in between, nothing is written meanwhile, and no alias can be seen to
    come or go.
    """

    def __init__(self, find, put, where=None, *, inputs=None, name=None):
        for what, given in (("find", find), ("put", put)):
            if not callable(given):
                raise UserError(f"{what} of a pattern is a function over tensors, got {given!r}")
        if where is not None and not callable(where):
            raise UserError(f"where of a pattern is a function of a match, got {where!r}")
        self.find, self.put, self.where = find, put, where
        self.name = self.__name__ = name or getattr(find, "__name__", "pattern")
        self.findings, self.replaced = (), 0
        self._tensors, self._numbers = _parameters(find, self.name)
        self._check_put()
        self._shape = self._read(inputs)

    def __repr__(self):
        return f"<fulgurite.Pattern {self.name}>"

    def __call__(self, trace):
        """The trace with what was found replaced; itself where nothing was."""
        symbols, findings, taken, replaced = trace.bound_symbols, [], set(), {}
        uses = Uses(trace, symbols)
        for found in matches_of(self._shape, symbols, uses):
            reason = found.reason or self._refusal(trace, symbols, uses, found, taken)
            if not reason:
                taken.update(found.places)
                replaced[found.places[-1]] = found
            match_line = Match((symbols[found.places[-1]],), (), (), {}).line
            if len(findings) < _KEPT:
                findings.append(Finding(match_line, repr(symbols[found.places[-1]]), reason))
        self.findings, self.replaced = tuple(findings), len(replaced)
        if not replaced:
            return trace
        made = trace.rewrite(_Replacing(self, replaced, taken))
        return _swept(trace, made)

    def _check_put(self):
        try:
            signature = inspect.signature(self.put)
        except ValueError:  # of a function in C
            return
        try:
            signature.bind(*self._tensors, **self._numbers)
        except TypeError as error:
            raise UserError(
                f"put of the pattern {self.name} is called with {len(self._tensors)} tensors and "
                f"the numbers {list(self._numbers)}: {error}"
            ) from error

    def _read(self, inputs):
        if inputs is None:
            inputs = [torch.ones(2, 2) for _ in self._tensors]
        if len(inputs) != len(self._tensors):
            raise UserError(
                f"the pattern {self.name} takes {len(self._tensors)} tensors, got {len(inputs)} "
                "inputs"
            )
        trace = self._traced(inputs, self._numbers)
        shape = Shape(trace, self.name)
        for name, number in self._numbers.items():
            other = self._varied(inputs, name, number)
            shape.mark(name, number, other)
        return shape

    def _varied(self, inputs, name, number):
        """(another number, the calls that `find` makes with it)."""
        tries = [number + 1, number - 1] if isinstance(number, int) else [1.5 * number + 0.25]
        for other in tries:
            try:
                return other, self._traced(inputs, {**self._numbers, name: other})
            except (UserError, RuntimeError, IndexError):
                continue
        raise UserError(
            f"find of the pattern {self.name} fails with another {name} than {number!r}; write the "
            "number into the function if it is to be exact"
        )

    def _traced(self, inputs, numbers):
        tracer = _C.Tracer()
        try:
            with torch.no_grad():
                given = [tracer.input(t, n) for t, n in zip(inputs, self._tensors, strict=True)]
                with tracer:
                    made = _as_tensors(self.find(*given, **numbers), f"find of {self.name}")
                captured = tracer.finish(made)
        except Unsupported as error:
            raise UserError(f"find of the pattern {self.name}: {error}") from error
        if captured.lifted:
            raise UserError(
                f"find of the pattern {self.name} uses a tensor from outside; make it a parameter"
            )
        return captured.trace

    def _refusal(self, trace, symbols, uses, found, taken):
        """Why a place that looks like `find` stays; "" if it does not."""
        if uses.has_backward_of_its_own:
            return "the trace has an autograd.Function, whose backward a rewriting would lose"
        if not taken.isdisjoint(found.places):
            return "a call of it has been replaced already"
        if reason := uses.refusal(found):
            return reason
        calls = [symbols[i] for i in found.places]
        part = trace.part(calls, _distinct(found.inputs), found.outputs)
        part = part.rewrite(lambda call, *args: NotImplemented)  # in a grad mode of its own
        if difference := part.difference(self._on(part, self.find, found)):
            return f"on these tensors find makes other calls: {difference}"
        made = self._on(part, self.put, found)
        if reason := _difference_of(part, made) or uses.refusal_of_aliases(found, part, made):
            return reason
        if self.where is None:
            return ""
        match = Match(tuple(calls), tuple(found.inputs), tuple(found.outputs), dict(found.numbers))
        return _said(self.where(match), self.name)

    def _on(self, part, function, found):
        places = {value.number: i for i, value in enumerate(_distinct(found.inputs))}

        def program(*tensors):
            given = [tensors[places[value.number]] for value in found.inputs]
            who = f"{'find' if function is self.find else 'put'} of {self.name}"
            made = _as_tensors(function(*given, **found.numbers), who)
            if len(made) != len(found.outputs):
                raise UserError(
                    f"{who} returned {len(made)} tensors; find returns {len(found.outputs)}"
                )
            return made

        return part.retrace(program)


class _Replacing:
    """A rule for Trace.rewrite."""

    def __init__(self, pattern, replaced, taken):
        self._pattern, self._replaced, self._taken = pattern, replaced, taken
        self._place, self._known = -1, {}

    def __call__(self, call, *args):
        self._place += 1
        if self._place not in self._taken:
            return NotImplemented
        self._note(call.args, args)
        found = self._replaced.get(self._place)
        if found is None:
            return NotImplemented
        given = [self._known[value.number] for value in found.inputs]
        who = f"put of {self._pattern.name}"
        made = _as_tensors(self._pattern.put(*given, **found.numbers), who)
        return dict(zip(found.outputs, made, strict=True))

    def _note(self, values, tensors):
        for value, tensor in zip(values, tensors, strict=True):
            if isinstance(value, TraceValue):
                self._known[value.number] = tensor
            elif isinstance(value, list):
                self._note(value, tensor)


def _swept(before, made):
    """Without the calls that were replaced, whose results nobody uses now."""
    freed = any(symbol.frees for symbol in before.bound_symbols)
    made = _C.passes.dead_code(made)
    return _C.passes.delete_last_used(made) if freed else made


def _parameters(function, name):
    """(names of tensors, {name: number} of those with a default)."""
    tensors, numbers = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UserError(f"the pattern {name} has a parameter {parameter}, which is no tensor")
        if parameter.default is parameter.empty:
            tensors.append(parameter.name)
        elif type(parameter.default) in (int, float) and math.isfinite(parameter.default):
            numbers[parameter.name] = parameter.default
        else:
            raise UserError(
                f"the default of {parameter.name} of the pattern {name} is an int or a float that "
                f"stands for any other, got {parameter.default!r}"
            )
    return tensors, numbers


def _as_tensors(made, who):
    tensors = list(made) if isinstance(made, (tuple, list)) else [made]
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise UserError(f"{who} returned a {type(tensor).__name__}; it has to return tensors")
    return tensors


def _distinct(values):
    return list({value.number: value for value in values}.values())


def _type_of(value):
    kind = "" if not value.requires_grad else " that requires grad"
    return f"{value.dtype} {list(value.shape)} with strides {value.strides} on {value.device}{kind}"


def _difference_of(part, made):
    for symbol in made.bound_symbols:
        if symbol.has_effect:
            return f"put writes or draws random numbers: {symbol!r}"
    for old, new in zip(part.outputs, made.outputs, strict=True):
        flags = [(v.is_conj, v.is_neg) for v in (old, new)]
        if _type_of(old) != _type_of(new) or flags[0] != flags[1]:
            return f"put gives {_type_of(new)}, and find gives {_type_of(old)}"
    return ""


def _said(answer, name):
    if answer is True or answer is False:
        return "" if answer else "where says no"
    if isinstance(answer, str) and answer:
        return answer
    raise UserError(f"where of the pattern {name} said {answer!r}; it says True, False or a reason")
