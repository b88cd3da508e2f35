"""What a captured call returned: its tensors, and how to build the like again."""

import contextlib
import types

import torch

from fulgurite import _C, _containers
from fulgurite._arguments import Places, is_tensor
from fulgurite._C import Unsupported
from fulgurite._numbers import Number
from fulgurite._spelling import spell, spell_key

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout,
    torch.memory_format, type(Ellipsis), type(NotImplemented), slice, range, torch.Generator,
)  # fmt: skip
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)


class Outputs:
    """Reads a result. `is_old(object)` tells whether an object was there before the capture.

    gives_argument: whether a container among the arguments is in the result, as itself.
    tensors: the distinct tensors of the result, in order.
    template: for the extension, see src/bindings/outputs.h.
    tree: for the printed return, see src/ir/output_tree.h.
    """

    def __init__(self, result, is_old, places=None):
        self.gives_argument, self._places = False, places or Places()
        self.tensors, self._numbers, self._made, self._is_old = [], {}, {}, is_old
        self._shown = {}  # containers among the arguments, as trees
        self.template, self.tree = self._read(result)

    def _read(self, value):
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if id(value) in self._made:
            number, tree = self._made[id(value)]
            return ("again", number, ()), tree
        if type(value) is Number:
            return self._number(value)
        if isinstance(value, _ATOMS) or type(value) is torch.Size:
            return ("constant", value, ()), ("constant", spell(value), (), ())
        if isinstance(value, (tuple, list, dict)) or _containers.is_container(type(value)):
            if (number := self._places.number_of(value)) is not None:
                self.gives_argument = True
                return ("argument", number, ()), self._argument_tree(value)
            if self._is_old(value) and not _holds_trace_tensor(value):
                return self._old(value)
            return self._container(value)
        if isinstance(value, _CODE) or self._is_old(value):
            return self._old(value)
        return self._fresh_object(value)

    def _old(self, value):
        return ("constant", value, ()), ("constant", f"...  # {type(value).__name__}", (), ())

    def _argument_tree(self, value):
        """What the printed program returns in place of a container among the arguments."""
        if id(value) not in self._shown:
            text = f"...  # the {type(value).__name__} among the arguments"
            self._shown[id(value)] = ("constant", text, (), ())  # within itself
            made = dict(self._made)  # a call builds nothing for it
            with contextlib.suppress(Unsupported):
                self._shown[id(value)] = self._container(value)[1]
            self._made = made
        return self._shown[id(value)]

    def _tensor(self, value):
        if not is_tensor(value):
            raise Unsupported(
                f"the function returns a {type(value).__name__}, a subclass of torch.Tensor; "
                "return a plain tensor, or leave this function uncompiled"
            )
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.tensors)
            self.tensors.append(value)
        number = self._numbers[id(value)]
        return ("tensor", number, ()), ("leaf", number, (), ())

    def _number(self, value):
        template, tree = self._tensor(value.value())
        self._remember(value, tree)
        return ("build", _item_of, (template,)), tree

    def _remember(self, value, tree):
        self._made[id(value)] = (len(self._made), tree)

    def _container(self, value):
        kind = type(value)
        if kind is tuple or kind is list:
            read = [self._read(child) for child in value]
            template, tree = (kind.__name__, None), (kind.__name__, "", ())
        elif kind is dict:
            read = [self._read(child) for child in value.values()]
            template = ("dict", list(value))
            tree = ("dict", "", tuple(map(spell_key, value)))
        else:
            children, build, keys = self._open(value)
            read = [self._read(child) for child in children]
            template, tree = ("build", build), ("object", kind.__name__, keys)
        templates, trees = tuple(t for t, _ in read), tuple(t for _, t in read)
        tree = (*tree, trees)
        self._remember(value, tree)
        return (*template, templates), tree

    @staticmethod
    def _open(value):
        if isinstance(value, tuple):
            kind, keys = type(value), tuple(map(repr, getattr(value, "_fields", ())))
            return list(value), lambda items: _containers.build_named_tuple(kind, items), keys
        children, _, build = _containers.open(value)
        # A container without the captured tensors: they are not to live as long as the entry.
        _, _, build = _containers.open(build([None] * len(children)))
        return children, build, tuple(_containers.keys_of(value))

    def _fresh_object(self, value):
        """An object that the captured call made: one of the same class with the same state."""
        kind, state = type(value), getattr(value, "__dict__", None)
        if state is None or kind.__reduce_ex__ is not object.__reduce_ex__ or _slots(kind):
            raise Unsupported(
                f"the function returns a {kind.__name__} that it made: such an object cannot be "
                "made again for later calls; return its tensors instead"
            )
        names = list(state)
        read = [self._read(state[name]) for name in names]
        tree = ("object", kind.__name__, tuple(map(repr, names)), tuple(t for _, t in read))
        self._remember(value, tree)

        def build(children):
            made = object.__new__(kind)
            made.__dict__.update(zip(names, children, strict=True))
            return made

        return ("build", build, tuple(t for t, _ in read)), tree


def _item_of(tensors):
    return tensors[0].item()


def _slots(kind):
    return any(getattr(base, "__slots__", ()) for base in kind.__mro__)


def _holds_trace_tensor(value):
    children = value.values() if isinstance(value, dict) else value
    try:
        return any(isinstance(c, torch.Tensor) and _C.is_trace_tensor(c) for c in children)
    except TypeError:
        return True
