"""Finding the calls of one trace among those of another."""

import dataclasses
import math

from fulgurite._C import TraceValue, UserError


@dataclasses.dataclass(frozen=True)
class _Value:
    number: int


@dataclasses.dataclass(frozen=True)
class _Wild:
    """Any number of that type."""

    name: str
    kind: type


@dataclasses.dataclass
class _Node:
    name: str
    args: list
    outputs: list  # numbers, None


@dataclasses.dataclass
class Found:
    """The calls at `places` look like a pattern; `reason`: how they do not."""

    places: list
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    inner: list = dataclasses.field(default_factory=list)
    numbers: dict = dataclasses.field(default_factory=dict)
    reason: str = ""


class Shape:
    """The calls that a pattern looks for. UserError for those that cannot be looked for."""

    def __init__(self, trace, name):
        self.name = name
        self.nodes, self.maker = [], {}
        self.inputs = [value.number for value in trace.inputs]
        self.outputs = [value.number for value in trace.outputs]
        for symbol in trace.bound_symbols:
            if symbol.has_effect:
                raise UserError(
                    f"find of the pattern {name} writes or draws random numbers, which cannot be "
                    f"replaced: {symbol!r}"
                )
            outputs = [_number(value) for value in _flat(symbol.outputs)]
            for number in outputs:
                self.maker[number] = len(self.nodes)
            self.nodes.append(_Node(symbol.name, _template(symbol.args), outputs))
        if not self.nodes:
            raise UserError(f"find of the pattern {name} calls no operator")
        self._check_connected()

    def _check_connected(self):
        reached, todo = set(), [len(self.nodes) - 1]
        used = set()
        while todo:
            place = todo.pop()
            if place in reached:
                continue
            reached.add(place)
            numbers = [value.number for value in _flat(self.nodes[place].args, _Value)]
            used.update(numbers)
            todo.extend(self.maker[number] for number in numbers if number in self.maker)
        if len(reached) < len(self.nodes):
            raise UserError(
                f"find of the pattern {self.name} makes calls that do not lead to its last one"
            )
        for number in self.inputs:
            if number not in used:
                raise UserError(f"find of the pattern {self.name} does not use all of its tensors")
        for number in self.outputs:
            if number not in self.maker:
                raise UserError(f"find of the pattern {self.name} returns one of its tensors")

    def mark(self, name, number, other):
        """The constants that differ in `other`, (another number, its trace), are wild."""
        changed, trace = other
        symbols, marked = trace.bound_symbols, False
        if [symbol.name for symbol in symbols] != [node.name for node in self.nodes]:
            raise UserError(f"find of the pattern {self.name} makes other calls for another {name}")
        for node, symbol in zip(self.nodes, symbols, strict=True):
            node.args = [
                self._marked(name, number, changed, mine, theirs)
                for mine, theirs in zip(node.args, _template(symbol.args), strict=True)
            ]
            marked |= any(True for wild in _flat(node.args, _Wild) if wild.name == name)
        if not marked:
            raise UserError(f"find of the pattern {self.name} does not use the number {name}")

    def _marked(self, name, number, changed, mine, theirs):
        if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
            pairs = zip(mine, theirs, strict=True)
            return [self._marked(name, number, changed, a, b) for a, b in pairs]
        if mine == theirs or isinstance(mine, _Wild):
            return mine
        if mine == number and theirs == changed:
            return _Wild(name, type(mine))
        raise UserError(
            f"find of the pattern {self.name} computes {mine!r} from the number {name}; use the "
            "number as it is"
        )


class Uses:
    """Who makes and uses what in a trace."""

    def __init__(self, trace, symbols):
        self._symbols = symbols
        self.end = trace.epilogue if trace.epilogue >= 0 else len(symbols)
        self.maker, self.users, self._writes = {}, {}, []
        # A region that nobody has been given yet.
        self.has_backward_of_its_own = any(s.op is None and not s.executor for s in symbols)
        self._returned = {value.number for value in trace.outputs}
        self._seen = {value.storage for value in trace.outputs}
        for place, symbol in enumerate(symbols):
            for value in _flat(symbol.args):
                self.users.setdefault(value.number, []).append(place)
                if place >= self.end:
                    self._seen.add(value.storage)
            for value in _flat(symbol.outputs):
                self.maker.setdefault(value.number, place)
            self._writes += [(place, value.storage) for value in symbol.writes]

    def refusal(self, found):
        """Why the calls cannot be replaced by others of the same results; "" if they can."""
        first, last = found.places[0], found.places[-1]
        inside = set(found.places)
        if last >= self.end:
            return "it is in the epilogue"
        if len({self._symbols[place].grad_mode for place in found.places}) > 1:
            return "its calls run in different grad modes"
        for value in found.inner:
            if value.number in self._returned:
                return f"{value.name}, which is made in between, is returned"
            for user in self.users.get(value.number, ()):
                if user not in inside:
                    return f"{value.name}, made in between, is used by {self._symbols[user]!r}"
        for value in found.outputs:
            for user in self.users.get(value.number, ()):
                if user < last and user not in inside:
                    return f"{value.name} is used before the last call: {self._symbols[user]!r}"
        storages = {v.storage for v in [*found.inputs, *found.outputs, *found.inner]}
        for place, storage in self._writes:
            if first <= place <= last and storage in storages:
                return f"memory that it uses is written meanwhile: {self._symbols[place]!r}"
        return ""

    def refusal_of_aliases(self, found, part, made):
        """The same for results that share memory with others than before."""
        before, after = _aliases(part), _aliases(made)
        for value, old, new in zip(found.outputs, before, after, strict=True):
            if old == new:
                continue
            storages = {value.storage, *(v.storage for v in found.inputs)}
            written = any(s in storages for place, s in self._writes if place < self.end)
            if written or value.storage in self._seen or any(i < 0 for i in old ^ new):
                return f"{value.name} would share memory with others than it does"
        return ""


def matches_of(shape, symbols, uses):
    """A Found for each call that may be the last one of the pattern, in order."""
    last = len(shape.nodes) - 1
    for place, symbol in enumerate(symbols):
        if symbol.name == shape.nodes[last].name:
            search = _Search(shape, symbols, uses)
            reason = search.node(last, place)
            yield search.found(place, reason)


class _Search:
    def __init__(self, shape, symbols, uses):
        self._shape, self._symbols, self._uses = shape, symbols, uses
        self._values, self._places, self._numbers = {}, {}, {}

    def found(self, place, reason):
        if reason:
            return Found([place], reason=reason)
        shape = self._shape
        made = [number for node in shape.nodes for number in node.outputs]
        return Found(
            sorted(self._places.values()),
            [self._values[number] for number in shape.inputs],
            [self._values[number] for number in shape.outputs],
            [self._values[n] for n in made if n in self._values and n not in shape.outputs],
            self._numbers,
        )

    def node(self, index, place):
        """How the call at `place` is not that node; "" where it is."""
        node, symbol = self._shape.nodes[index], self._symbols[place]
        if self._places.get(index, place) != place:
            return f"{symbol!r} is used where another call is expected"
        if index in self._places:
            return ""
        if symbol.name != node.name:
            return f"{symbol!r} is {symbol.name}, not {node.name}"
        if place in self._places.values():
            return f"{symbol!r} stands for two calls"
        self._places[index] = place
        outputs = list(_flat(symbol.outputs))
        if len(outputs) != len(node.outputs):
            return f"{symbol!r} has {len(outputs)} results, not {len(node.outputs)}"
        for number, value in zip(node.outputs, outputs, strict=True):
            if reason := self._bound(number, value):
                return reason
        return self._args(node.args, symbol.args, symbol)

    def _args(self, wanted, given, symbol):
        if len(wanted) != len(given):
            return f"{symbol!r} has a list of another length"
        for want, arg in zip(wanted, given, strict=True):
            if reason := self._arg(want, arg, symbol):
                return reason
        return ""

    def _arg(self, want, arg, symbol):
        if isinstance(want, list) and isinstance(arg, list):
            return self._args(want, arg, symbol)
        if isinstance(want, _Value):
            if not isinstance(arg, TraceValue):
                return f"{symbol!r} has {arg!r} where a tensor is expected"
            return self._value(want.number, arg)
        if isinstance(want, _Wild):
            if type(arg) is not want.kind:
                return f"{symbol!r} has {arg!r} where {want.name} is expected"
            if not _same(self._numbers.setdefault(want.name, arg), arg):
                return f"{symbol!r} has {arg!r}, and {want.name} is {self._numbers[want.name]!r}"
            return ""
        return "" if _same(want, arg) else f"{symbol!r} has {arg!r}, not {want!r}"

    def _value(self, number, value):
        if number not in self._shape.maker:
            return self._bound(number, value)
        place = self._uses.maker.get(value.number)
        if place is None:
            return f"{value.name} is an input, not made by {self._node_name(number)}"
        if reason := self.node(self._shape.maker[number], place):
            return reason
        return self._bound(number, value)

    def _node_name(self, number):
        return self._shape.nodes[self._shape.maker[number]].name

    def _bound(self, number, value):
        if self._values.setdefault(number, value).number != value.number:
            return f"{value.name} is used where {self._values[number].name} is expected"
        return ""


def _flat(args, kind=TraceValue):
    for arg in args:
        if isinstance(arg, kind):
            yield arg
        elif isinstance(arg, list):
            yield from _flat(arg, kind)


def _number(value):
    return value.number


def _template(args):
    return [
        _Value(arg.number)
        if isinstance(arg, TraceValue)
        else _template(arg)
        if isinstance(arg, list)
        else arg
        for arg in args
    ]


def _same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    return bool(a == b)


def _aliases(trace):
    """Of each output: the inputs, and as -1 - i the outputs, that share its memory."""
    found = []
    for value in trace.outputs:
        inputs = {i for i, other in enumerate(trace.inputs) if other.storage == value.storage}
        outputs = enumerate(trace.outputs)
        found.append(inputs | {-1 - i for i, other in outputs if other.storage == value.storage})
    return found
