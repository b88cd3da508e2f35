"""What a captured call returned: its tensors, and how to build the like again."""

import contextlib
import gc
import re
import types

import torch

from fulgurite import _C, _containers
from fulgurite._arguments import Places, is_tensor
from fulgurite._C import Unsupported
from fulgurite._numbers import Number
from fulgurite._objects import open_object
from fulgurite._reach import holds_traced, reachable
from fulgurite._spelling import spell, spell_key

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout,
    torch.memory_format, type(Ellipsis), type(NotImplemented), range, torch.Generator,
    torch.Size, re.Pattern,
)  # fmt: skip
# The very one is given back, unless a tensor of the call is in it.
_SHARED = (*_ATOMS, types.FunctionType, types.ModuleType, type, slice, frozenset)
_BUILTIN = (types.BuiltinMethodType, types.MethodWrapperType)


def refuse_attributes(tensor, stand_ins, what):
    """Of a tensor that the call makes: `what` it does with it."""
    sets = _C.is_trace_tensor(tensor) and vars(tensor)
    if sets and all(tensor is not other for other in stand_ins):
        names = ", ".join(vars(tensor))
        raise Unsupported(
            f"the function {what} a tensor on which it sets attributes ({names}), which would "
            "be missing on the tensors of later calls; return them beside it"
        )


class Outputs:
    """Reads a result. `is_old(object)` tells whether an object was there before the capture.

    gives_argument: whether a container among the arguments is in the result, as itself.
    tensors: the distinct tensors of the result, in order.
    template: for the extension, see src/bindings/outputs.h.
    tree: for the printed return, see src/ir/output_tree.h.
    made: {id: number} of what every call makes anew for the result.
    kept: containers that are in the result as themselves.
    """

    def __init__(self, result, is_old, places=None, stand_ins=()):
        self.gives_argument, self._places = False, places or Places()
        self._stand_ins = stand_ins
        self.tensors, self._numbers, self._made, self._is_old = [], {}, {}, is_old
        self._result, self._reached = result, {}
        self.kept = []
        self._shown = {}  # containers among the arguments, as trees
        self._open = set()  # the ids of what is being read
        self.template, self.tree = self._read(result)
        self._result = self._reached = None
        self.made = {key: number for key, (number, _) in self._made.items()}

    def _read(self, value):
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if id(value) in self._made:
            number, tree = self._made[id(value)]
            return ("again", number, ()), tree
        if type(value) is Number:
            return self._number(value)
        if type(value) in _ATOMS:
            return self._constant(value)
        if isinstance(value, (tuple, list, dict)) or _containers.is_container(type(value)):
            if (number := self._places.number_of(value)) is not None:
                self.gives_argument = True
                return ("argument", number, ()), self._argument_tree(value)
            if self._is_old(value):
                return self._constant(value)
            return self._within(value, self._container)
        if self._is_old(value) or isinstance(value, _BUILTIN) and _is_global(value):
            return self._constant(value)
        if isinstance(value, types.CellType) and not self._is_made_by_call(value):
            return self._constant(value)
        if isinstance(value, _SHARED) and not self._is_changed_by_call(value):
            return self._constant(value)
        return self._within(value, self._object)

    def _holds_traced(self, value):
        return holds_traced(value, self._is_old)

    def _is_changed_by_call(self, value):
        """Whether what is in the value is another for each call."""
        cells = getattr(value, "__closure__", None) or ()
        return any(map(self._is_made_by_call, cells)) or self._holds_traced(value)

    def _is_made_by_call(self, cell):
        """Others than functions in the result have a cell that was there before."""
        if not self._reached:
            self._reached = {id(value): value for value in reachable(self._result, self._is_old)}
        closures = [user for user in gc.get_referrers(cell) if type(user) is tuple]
        return not self._is_old(cell) and all(id(user) in self._reached for user in closures)

    def _within(self, value, read):
        """What is in a value is read before the value is made."""
        if id(value) in self._open:
            raise Unsupported(
                f"the function returns a {type(value).__name__} that contains itself, which cannot "
                "be made again for later calls; return its parts instead"
            )
        self._open.add(id(value))
        found = read(value)
        self._open.discard(id(value))
        return found

    def _constant(self, value):
        if isinstance(value, (tuple, list, dict)):
            self.kept.append(value)
        return ("constant", value, ()), ("constant", spell(value), (), ())

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
        refuse_attributes(value, self._stand_ins, "returns")
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
            return self._build(value, (kind.__name__, None), (kind.__name__, "", ()), value)
        self._check_parts(value, list(value) if isinstance(value, dict) else ())
        if kind is dict:
            tree = ("dict", "", tuple(map(spell_key, value)))
            return self._build(value, ("dict", list(value)), tree, value.values())
        opened = _containers.open(value)
        self._check_parts(value, (kind, opened.build, opened.context))
        named = opened.names != list(range(len(opened.names)))
        return self._build_opened(value, opened, opened.names if named else ())

    def _object(self, value):
        """An object that the captured call made: one of the same class with the same state."""
        opened = open_object(value)
        if opened is None or self._holds_traced(type(value)):
            raise Unsupported(
                f"the function returns a {type(value).__name__} that it made: such an object cannot"
                " be made again for later calls; return its tensors instead"
            )
        return self._build_opened(value, opened, opened.names)

    def _build_opened(self, value, opened, names):
        tree = ("object", type(value).__name__, tuple(map(spell_key, names)))
        return self._build(value, ("build", opened.build), tree, opened.children)

    def _build(self, value, template, tree, children):
        read = [self._read(child) for child in children]
        templates, trees = tuple(t for t, _ in read), tuple(t for _, t in read)
        tree = (*tree, trees)
        self._remember(value, tree)
        return (*template, templates), tree

    def _check_parts(self, value, parts):
        if any(self._holds_traced(part) for part in parts):
            raise Unsupported(
                f"the function returns a {type(value).__name__} with a tensor in its keys or "
                "its class, which cannot be made again for later calls; return the tensor itself"
            )


def _item_of(tensors):
    return tensors[0].item()


def _is_global(method):
    return method.__self__ is None or isinstance(method.__self__, (types.ModuleType, type))
