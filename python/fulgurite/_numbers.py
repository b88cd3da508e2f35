"""Numbers that a captured program takes out of tensors with item() and computes with.

The program gets an object that stands for a float. Arithmetic on it is recorded as an expression
(see src/capture/number.h), which every run evaluates as Python does; where the program wants to
know the number itself, to branch on it or to print it, it is refused.
"""

import contextlib
import sys
import threading
import weakref

import torch

from fulgurite import _C

_INSTEAD = (
    "compute with the number (+, -, *, /, **, abs) and give it to operators of torch, use "
    "torch.where instead of a Python condition, or leave this part out of the captured function"
)

_LONG_TEXT = 300  # characters; what is longer becomes a value of its own


class Number(torch.SymFloat):
    """A float that is known when the program runs. As a SymFloat, torch takes it for a Scalar."""

    __slots__ = ("_leaves", "_text", "_value")
    _fulgurite_stands_for = "a number that is read from a traced tensor"  # src/pystate asks

    def __init__(self, leaves, text):
        """`text`: an expression with {0}, {1}, ... for `leaves`, which are numbers of the trace."""
        self._leaves, self._text, self._value = leaves, text, None
        _made.all.append(weakref.ref(self))

    def value(self):
        """The number as a value of the trace."""
        if self._value is None:
            bare = self._text == "{0}"
            self._value = self._leaves[0] if bare else _C.arithmetic(self._leaves, self._text)
            self._leaves, self._text = [self._value], "{0}"
        return self._value

    @property
    def node(self):
        return _Node(self.value())

    @property
    def __class__(self):
        return float

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        # Asked where a tensor is expected. Most functions have an overload for a Scalar then.
        written_in_c = not hasattr(function, "__code__")
        name = function.__name__
        scalar = written_in_c and name.rstrip("_") not in _C.NUMBERS_AS_TENSORS and name[:2] != "__"
        kwargs = {key: _given(value, scalar) for key, value in (kwargs or {}).items()}
        return function(*(_given(value, scalar) for value in args), **kwargs)

    def __pos__(self):
        return self

    def __neg__(self):
        return Number(self._leaves, f"(-{self._text})")

    def __abs__(self):
        return Number(self._leaves, f"abs({self._text})")


class _Made(threading.local):
    """Weak references to the numbers of the capture on this thread."""

    def __init__(self):
        self.all = []


_made = _Made()


@contextlib.contextmanager
def collected():
    """Within, the numbers are those of one capture."""
    before, _made.all = _made.all, []
    try:
        yield
    finally:
        _made.all = before


def settle():
    """Makes values of the trace of the numbers that the program keeps, while it is captured."""
    for reference in _made.all:
        if (number := reference()) is not None:
            number.value()


class _Node:
    """What torch asks of a SymFloat."""

    def __init__(self, value):
        self.value = value

    def is_int(self):
        return False

    def is_bool(self):
        return False

    def is_float(self):
        return True

    def guard_int(self, file, line):
        return _C.value_of(self.value)

    def guard_float(self, file, line):
        _refuse("gives it to a function that needs to know it")


def _given(argument, scalar):
    if type(argument) is Number:
        return torch.SymFloat(argument.node) if scalar else argument.value()
    if type(argument) in (list, tuple):  # there a number always stands for a Scalar
        return type(argument)(
            torch.SymFloat(item.node) if type(item) is Number else item for item in argument
        )
    return argument


def _operand(value):
    """(leaves, text) of an operand; None for what is no float."""
    if type(value) is Number:
        return value._leaves, value._text
    if type(value) not in (bool, int, float):
        return None
    if type(value) is int and int(float(value)) != value:
        _refuse(f"computes with it and {value}, which no float can be")
    number = float(value)
    if number - number != 0:
        _refuse(f"computes with it and {number}")
    return [], f"{number!r}" if str(number)[0] != "-" else f"(-{-number!r})"


def _binary(symbol, swapped):
    """`self symbol other`, or the other way round."""

    def operate(self, other):
        if type(other) is Number and len(other._text) > _LONG_TEXT:
            other.value()
        operand = _operand(other)
        if operand is None:
            return NotImplemented
        if len(self._text) > _LONG_TEXT:  # an operand may be in it many times
            self.value()
        pair = [_operand(self), operand]
        (leaves, text), (more, other_text) = reversed(pair) if swapped else pair
        for index in reversed(range(len(more))):
            other_text = other_text.replace(f"{{{index}}}", f"{{{index + len(leaves)}}}")
        return Number([*leaves, *more], f"({text} {symbol} {other_text})")

    return operate


def _comparison(symbol):
    compute = _binary(symbol, swapped=False)

    def compare(self, other):
        number = compute(self, other)
        return number if number is NotImplemented else _C.decide(number.value())

    return compare


def _is_not_zero(self):
    return self != 0


def _refusing(what):
    def refuse(self, *args, **kwargs):
        _refuse(what)

    return refuse


def _refuse(what):
    _C.refuse(
        f"the function takes a number out of a traced tensor with item() and {what}", _INSTEAD
    )


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}.items():
    setattr(Number, f"__{_name}__", _binary(_symbol, swapped=False))
    setattr(Number, f"__r{_name}__", _binary(_symbol, swapped=True))
for _name, _symbol in {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}.items():
    setattr(Number, f"__{_name}__", _comparison(_symbol))
for _name in (
    "floordiv rfloordiv mod rmod divmod rdivmod matmul rmatmul round trunc floor ceil float int "
    "complex index"
).split():
    setattr(Number, f"__{_name}__", _refusing("needs to know it"))
for _name in ("is_integer", "as_integer_ratio", "hex", "conjugate"):
    setattr(Number, _name, _refusing("needs to know it"))
Number.__bool__ = _is_not_zero
Number.__hash__ = _refusing("uses it as a key")
Number.__repr__ = Number.__str__ = Number.__format__ = _refusing("makes text of it")
Number.__reduce_ex__ = Number.__deepcopy__ = Number.__copy__ = _refusing("copies it")


def item(original, tensor):
    """Tensor.item() while a program is captured."""
    caller = sys._getframe(2).f_globals.get("__name__", "")
    number = _C.number_in(tensor, caller.startswith("torch.optim."))
    return original(tensor) if number is None else Number([number], "{0}")
