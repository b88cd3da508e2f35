"""Each read is guarded: where state that a program read is changed, its guards fail."""

import copy
import functools
import json
import operator
import os
import threading

import pytest
import state_program as s
import torch

from fulgurite import _C


def put(container, key, value):
    return lambda: container.__setitem__(key, value)


def setter(instance, name, value):
    return lambda: setattr(instance, name, value)


def deleter(instance, name):
    return lambda: delattr(instance, name)


def number_case(program):
    """A program that reads the global NUMBER."""
    return program, s.set_global("NUMBER", 4), s.set_global("NUMBER", 3)


def list_case(program):
    return program, lambda: s.LIST.append(9), lambda: s.LIST.pop()


def rate_case(program):
    return program, put(s.TABLE, "lr", 0.2), put(s.TABLE, "lr", 0.1)


def x_case(program):
    return program, setter(s.OBJECT, "x", 2), setter(s.OBJECT, "x", 1)


def k_case(program):
    return program, setter(s.Base, "k", 8), setter(s.Base, "k", 7)


def replaced(program, owner, name, new):
    """An attribute of a class is replaced."""
    old = owner.__dict__[name]
    return program, setter(owner, name, new), setter(owner, name, old)


def added(program, owner, name, new):
    return program, setter(owner, name, new), deleter(owner, name)


lin = s.net.lin
weight = lin.weight
forwarded = s.OBJECT.a.b

# name: (program, change, change back)
READS = {
    # globals
    "global": number_case(lambda: s.NUMBER + 1),
    "global of the function": number_case(s.nested),
    "global dict": rate_case(lambda: s.TABLE["lr"]),
    "globals()": number_case(lambda: s.match_globals()),
    "builtin shadowed": (lambda: s.call_abs(), s.set_global("abs", len), lambda: delattr(s, "abs")),
    "many names": (s.MANY["many"], put(s.MANY, "v299", -1), put(s.MANY, "v299", 299)),
    "import inside": (
        s.import_inside,
        put(os.sys.modules, "mymodule", s.module),
        put(os.sys.modules, "mymodule", s.other_module),
    ),
    "module attribute": (lambda: s.module.q, setter(s.module, "q", 2), setter(s.module, "q", 1)),
    "exec": number_case(lambda: s.run_exec()),
    "eval": number_case(lambda: s.run_eval()),
    # dicts
    "dict.get": rate_case(lambda: s.TABLE.get("lr")),
    "bound dict.get": rate_case(lambda: [s.TABLE.get][0]("lr")),
    "map(d.get)": rate_case(lambda: list(map(s.TABLE.get, ["lr"]))),
    "in dict": (lambda: "zz" in s.TABLE, put(s.TABLE, "zz", 1), lambda: s.TABLE.pop("zz")),
    "in dict.keys()": (
        lambda: "zz" in s.TABLE.keys(),  # noqa: SIM118
        put(s.TABLE, "zz", 1),
        lambda: s.TABLE.pop("zz"),
    ),
    "dict order": (
        lambda: list(s.TABLE),
        lambda: s.TABLE.update(lr=s.TABLE.pop("lr")),
        lambda: s.TABLE.update(b=s.TABLE.pop("b")),
    ),
    "dict items": (
        lambda: [k for k, v in s.TABLE.items()],
        put(s.TABLE, "q", 1),
        lambda: s.TABLE.pop("q"),
    ),
    "dict values": rate_case(lambda: sum(s.TABLE.values())),
    "sorted(dict)": (lambda: sorted(s.TABLE), put(s.TABLE, "q", 1), lambda: s.TABLE.pop("q")),
    "len(dict)": (lambda: len(s.TABLE), put(s.TABLE, "q", 1), lambda: s.TABLE.pop("q")),
    "OrderedDict": (
        lambda: s.ORDERED["a"],
        lambda: s.ORDERED.update(a=2),
        lambda: s.ORDERED.update(a=1),
    ),
    "OrderedDict order": (
        lambda: list(s.ORDERED),
        lambda: s.ORDERED.move_to_end("a"),
        lambda: s.ORDERED.move_to_end("b"),
    ),
    "__missing__": number_case(lambda: s.COUNTING["q"]),
    "copy of a dict": rate_case(lambda: dict(s.TABLE)["lr"]),
    "{**d}": rate_case(lambda: {**s.TABLE}["lr"]),
    "d | d": rate_case(lambda: (s.TABLE | {})["lr"]),
    "**keywords": rate_case(lambda: s.pass_keywords(**s.TABLE)),
    "f-string of a dict": rate_case(lambda: f"{s.TABLE}"),
    "match mapping": rate_case(s.match_mapping),
    "json.dumps": rate_case(lambda: json.dumps(s.TABLE)),
    "json.dumps, nested": (
        lambda: json.dumps(s.NESTED),
        put(s.NESTED["a"], "b", 2),
        put(s.NESTED["a"], "b", 1),
    ),
    "operator.itemgetter": rate_case(lambda: operator.itemgetter("lr")(s.TABLE)),
    "operator.getitem": rate_case(lambda: operator.getitem(s.TABLE, "lr")),
    # lists and others
    "list item": (lambda: s.LIST[1], put(s.LIST, 1, 9), put(s.LIST, 1, 2)),
    "negative index": list_case(lambda: s.LIST[-1]),
    "slice": (lambda: s.LIST[:2], put(s.LIST, 0, 5), put(s.LIST, 0, 1)),
    "iteration": list_case(lambda: [v for v in s.LIST]),
    "len(list)": list_case(lambda: len(s.LIST)),
    "truth of a list": (
        lambda: 1 if s.LIST else 2,
        lambda: s.LIST.clear(),
        lambda: s.LIST.extend([1, 2, 3]),
    ),
    "not list": (
        lambda: not s.LIST,
        lambda: s.LIST.clear(),
        lambda: s.LIST.extend([1, 2, 3]),
    ),
    "in list": list_case(lambda: 9 in s.LIST),
    "in set": (lambda: 9 in s.SET, lambda: s.SET.add(9), lambda: s.SET.discard(9)),
    "iteration of a set": (
        lambda: [v for v in s.SET],
        lambda: s.SET.add(9),
        lambda: s.SET.discard(9),
    ),
    "list ==": list_case(lambda: s.LIST == [1, 2, 3]),
    "list + list": list_case(lambda: s.LIST + [1]),
    "format of a list": list_case(lambda: "%s" % s.LIST),
    "str.join": (
        lambda: ",".join(s.STRINGS),
        lambda: s.STRINGS.append("z"),
        lambda: s.STRINGS.pop(),
    ),
    "zip": list_case(lambda: list(zip(s.LIST, s.LIST))),
    "enumerate": list_case(lambda: list(enumerate(s.LIST))),
    "reversed": list_case(lambda: list(reversed(s.LIST))),
    "sum of lists": (
        lambda: sum(s.LISTS, []),
        lambda: s.LISTS[0].append(1),
        lambda: s.LISTS[0].pop(),
    ),
    "deepcopy": (
        lambda: copy.deepcopy(s.LISTS),
        lambda: s.LISTS[0].append(1),
        lambda: s.LISTS[0].pop(),
    ),
    "unpack": (s.unpack, put(s.LIST, 0, 5), put(s.LIST, 0, 1)),
    "spread": (s.spread, put(s.LIST, 0, 5), put(s.LIST, 0, 1)),
    "match sequence": (s.match_sequence, put(s.LIST, 0, 5), put(s.LIST, 0, 1)),
    "list in a tuple": list_case(lambda: len(s.PAIR[0])),
    "functools.reduce": list_case(lambda: functools.reduce(lambda a, b: a + b, s.LIST)),
    "deque": (
        lambda: s.DEQUE[0],
        lambda: s.DEQUE.appendleft(5),
        lambda: s.DEQUE.popleft(),
    ),
    "bytearray": (lambda: s.BYTES[0], put(s.BYTES, 0, 1), put(s.BYTES, 0, 97)),
    "array item": (lambda: float(s.ARRAY[0]), put(s.ARRAY, 0, 5), put(s.ARRAY, 0, 1)),
    "array.sum()": (lambda: float(s.ARRAY.sum()), put(s.ARRAY, 0, 5), put(s.ARRAY, 0, 1)),
    "torch.tensor(array)": (
        lambda: torch.tensor(s.ARRAY),
        put(s.ARRAY, 0, 5),
        put(s.ARRAY, 0, 1),
    ),
    "torch.tensor(list)": list_case(lambda: torch.tensor(s.LIST)),
    "tensor[list]": (
        lambda: torch.arange(9)[s.LIST],
        put(s.LIST, 0, 5),
        put(s.LIST, 0, 1),
    ),
    # attributes
    "attribute": x_case(lambda: s.OBJECT.x),
    "object replaced": (
        lambda: s.OBJECT.x,
        lambda: setattr(s, "OBJECT", s.Derived()) or setattr(s.OBJECT, "x", 5),
        setter(s, "OBJECT", s.OBJECT),
    ),
    "a.b[c]": (lambda: s.OBJECT.a.b["c"], put(forwarded, "c", 6), put(forwarded, "c", 5)),
    "getattr": x_case(lambda: getattr(s.OBJECT, "x")),  # noqa: B009
    "getattr of another name": x_case(lambda: getattr(s.OBJECT, "".join(["x"]))),
    "hasattr": (
        lambda: hasattr(s.OBJECT, "no"),
        setter(s.OBJECT, "no", 2),
        deleter(s.OBJECT, "no"),
    ),
    "getattr with a default": (
        lambda: getattr(s.OBJECT, "no", 7),
        setter(s.OBJECT, "no", 2),
        deleter(s.OBJECT, "no"),
    ),
    "attribute removed": (lambda: s.base.m0, deleter(s.base, "m0"), setter(s.base, "m0", 4)),
    "vars()": x_case(lambda: vars(s.OBJECT)["x"]),
    "__dict__": x_case(lambda: s.OBJECT.__dict__["x"]),
    "__dict__ replaced": (
        lambda: s.OBJECT.x,
        setter(s.OBJECT, "__dict__", {"x": 8, "a": s.OBJECT.a}),
        setter(s.OBJECT, "__dict__", s.OBJECT.__dict__),
    ),
    "property": (lambda: s.base.prop, setter(s.base, "m0", 8), setter(s.base, "m0", 4)),
    "property replaced": replaced(lambda: s.base.prop, s.Base, "prop", 1),
    "cached_property": (
        lambda: s.base.cached,
        put(s.base.__dict__, "cached", 1),
        lambda: s.base.__dict__.pop("cached"),
    ),
    "__getattr__": (
        lambda: s.fallback.z,
        put(s.fallback.store, "z", 4),
        put(s.fallback.store, "z", 3),
    ),
    "__getattr__ shadowed": (
        lambda: s.fallback.z,
        put(s.fallback.__dict__, "z", 4),
        lambda: s.fallback.__dict__.pop("z"),
    ),
    "__getattribute__": (
        lambda: s.intercepting.v,
        put(vars(s.intercepting), "v", 4),
        put(vars(s.intercepting), "v", 1),
    ),
    "__getattribute__ added": added(
        lambda: s.base.m0, s.Base, "__getattribute__", lambda self, name: 5
    ),
    "__slots__": (lambda: s.slotted.v, setter(s.slotted, "v", 2), setter(s.slotted, "v", 1)),
    "descriptor": (
        lambda: s.described.d,
        setter(s.described, "_w", 2),
        setter(s.described, "_w", 1),
    ),
    "operator.attrgetter": (
        lambda: operator.attrgetter("a.b")(s.OBJECT),
        setter(s.OBJECT.a, "b", {}),
        setter(s.OBJECT.a, "b", forwarded),
    ),
    "copy.copy(object)": x_case(lambda: copy.copy(s.OBJECT).x),
    "namedtuple": (
        lambda: s.POINT.x,
        s.set_global("POINT", s.Point(5, 2)),
        s.set_global("POINT", s.POINT),
    ),
    "threading.local": (lambda: s.LOCAL.v, setter(s.LOCAL, "v", 2), setter(s.LOCAL, "v", 1)),
    "attribute of a function": (
        lambda: getattr(s.inc, "tag", 0),
        setter(s.inc, "tag", 1),
        deleter(s.inc, "tag"),
    ),
    "name of a class": (
        lambda: s.base.__class__.__name__,
        setter(s.Base, "__name__", "Other"),
        setter(s.Base, "__name__", "Base"),
    ),
    # classes
    "class attribute": k_case(lambda: s.base.k),
    "class attribute, direct": k_case(lambda: s.Base.k),
    "class attribute shadowed": (lambda: s.base.k, setter(s.base, "k", 8), deleter(s.base, "k")),
    "inherited attribute overridden": added(lambda: s.derived.k, s.Derived, "k", 9),
    "method replaced": replaced(lambda: s.base.method(), s.Base, "method", lambda self: 1),
    "method on the instance": added(lambda: s.base.method(), s.base, "method", lambda: 1),
    "super()": replaced(lambda: s.derived.method(), s.Base, "method", lambda self: 1),
    "__class__ assigned": (
        lambda: s.base.method(),
        setter(s.base, "__class__", s.Derived),
        setter(s.base, "__class__", s.Base),
    ),
    "staticmethod replaced": replaced(lambda: s.Static.f(), s.Static, "f", staticmethod(lambda: 2)),
    "classmethod": (lambda: s.Static.g(), setter(s.Static, "k", 3), setter(s.Static, "k", 2)),
    "metaclass attribute": (lambda: s.Static.mk, setter(s.Meta, "mk", 3), setter(s.Meta, "mk", 2)),
    "isinstance, __instancecheck__": added(
        lambda: isinstance(3, s.Static), s.Meta, "__instancecheck__", lambda cls, o: True
    ),
    "isinstance, registered": (
        lambda: isinstance(s.base, s.Abstract),
        lambda: s.Abstract.register(s.Base),
        None,
    ),
    "isinstance of a class": (
        lambda: isinstance(s.derived, s.Base),
        setter(s.Derived, "__bases__", (s.Plain,)),
        setter(s.Derived, "__bases__", (s.Base,)),
    ),
    "class defined inside": number_case(s.define_class),
    # functions
    "default": (
        lambda: s.inc(1),
        setter(s.inc, "__defaults__", (2,)),
        setter(s.inc, "__defaults__", (1,)),
    ),
    "keyword default": (
        lambda: s.by_keyword(1),
        put(s.by_keyword.__kwdefaults__, "s", 3),
        put(s.by_keyword.__kwdefaults__, "s", 2),
    ),
    "mutable default": (
        s.mutable_default,
        lambda: s.mutable_default.__defaults__[0].append(3),
        lambda: s.mutable_default.__defaults__[0].pop(),
    ),
    "code": (
        lambda: s.inc(1),
        setter(s.inc, "__code__", (lambda x, step=1: x - step).__code__),
        setter(s.inc, "__code__", s.inc.__code__),
    ),
    "closure": (lambda: s.inner(), lambda: s.set_inner(4), lambda: s.set_inner(3)),
    "recursion": number_case(lambda: s.recursive(3)),
    "decorated": number_case(lambda: s.decorated()),
    "lambda in a list": number_case(lambda: s.LAMBDAS[0](1)),
    "lambda replaced": (
        lambda: s.LAMBDAS[0](1),
        put(s.LAMBDAS, 0, abs),
        put(s.LAMBDAS, 0, s.LAMBDAS[0]),
    ),
    "bound method in a list": k_case(lambda: [s.base.method][0]()),
    "partial": (
        lambda: s.PARTIAL(1),
        put(s.PARTIAL.keywords, "step", 6),
        put(s.PARTIAL.keywords, "step", 5),
    ),
    "partial made inside": (
        lambda: functools.partial(s.inc)(1),
        setter(s.inc, "__defaults__", (2,)),
        setter(s.inc, "__defaults__", (1,)),
    ),
    "map(partial)": (
        lambda: list(map(s.PARTIAL, s.LIST)),
        put(s.PARTIAL.keywords, "step", 6),
        put(s.PARTIAL.keywords, "step", 5),
    ),
    "map: function": x_case(lambda: list(map(s.key, s.LIST))),
    "map: list": list_case(lambda: list(map(s.key, s.LIST))),
    "sorted(key)": (
        lambda: sorted(s.LIST, key=s.key),
        setter(s.OBJECT, "x", -1),
        setter(s.OBJECT, "x", 1),
    ),
    "max(key)": x_case(lambda: max([s.OBJECT], key=lambda o: o.x).x),
    "__call__": (
        lambda: s.callable_object(1),
        setter(s.callable_object, "w", 2),
        setter(s.callable_object, "w", 1),
    ),
    "generator": number_case(lambda: list(s.generate())),
    "generator's list": list_case(lambda: list(s.generate())),
    "comprehension": number_case(lambda: {v: s.NUMBER for v in range(2)}),
    "coroutine": number_case(s.run_coroutine),
    "absent key": (s.absent_key, put(s.TABLE, "absent", 1), lambda: s.TABLE.pop("absent")),
    "in a handler": number_case(s.absent_key),
    "lru_cache, miss": (
        lambda: s.cached_by(1),
        lambda: s.set_global("NUMBER", 4)() or s.cached_by.cache_clear(),
        lambda: s.set_global("NUMBER", 3)() or s.cached_by.cache_clear(),
    ),
    "singledispatch": number_case(lambda: s.single(2)),
    # special methods that C code calls
    "__eq__ replaced": replaced(lambda: 3 in s.EQUALS, s.Comparing, "__eq__", lambda a, b: False),
    "__eq__ added": added(lambda: 3 in [s.base], s.Base, "__eq__", lambda a, b: True),
    "__hash__ replaced": replaced(
        lambda: hash(s.EQUALS[0]), s.Comparing, "__hash__", lambda self: 5
    ),
    "__len__ added": added(lambda: bool(s.base), s.Base, "__len__", lambda self: 0),
    "__bool__ added": added(lambda: not s.base, s.Base, "__bool__", lambda self: False),
    "dataclass ==": (
        lambda: s.config == s.Config(8),
        setter(s.config, "h", 9),
        setter(s.config, "h", 8),
    ),
    "match class": (s.match_class, setter(s.config, "h", 9), setter(s.config, "h", 8)),
    "enum": (
        lambda: s.COLOUR is s.Colour.RED,
        s.set_global("COLOUR", s.Colour.BLUE),
        s.set_global("COLOUR", s.Colour.RED),
    ),
    "enum value": (
        lambda: s.COLOUR.value,
        s.set_global("COLOUR", s.Colour.BLUE),
        s.set_global("COLOUR", s.Colour.RED),
    ),
    # others
    "context variable": (
        lambda: s.VARIABLE.get(),
        lambda: s.VARIABLE.set(2),
        lambda: s.VARIABLE.set(1),
    ),
    "weak reference": x_case(lambda: s.REFERENCE().x),
    "GenericAlias": (
        lambda: s.generic(),
        s.set_global("list", dict),
        lambda: delattr(s, "list"),
    ),
    "os.environ": (
        lambda: os.environ.get("FULGURITE_TEST", "none"),
        put(os.environ, "FULGURITE_TEST", "1"),
        lambda: os.environ.pop("FULGURITE_TEST"),
    ),
    "with lock": number_case(lambda: s.locked()),
    # modules
    "nn: attribute": (lambda: s.net(s.X), setter(s.net, "scale", 3), setter(s.net, "scale", 2)),
    "nn: child": (
        lambda: s.net(s.X),
        setter(s.net, "lin", torch.nn.Linear(2, 2)),
        setter(s.net, "lin", lin),
    ),
    "nn: parameter": (
        lambda: s.net(s.X),
        setter(lin, "weight", torch.nn.Parameter(torch.ones(2, 2))),
        setter(lin, "weight", weight),
    ),
    "nn: buffer": (
        lambda: s.net(s.X),
        setter(s.net, "buffer", torch.zeros(2)),
        setter(s.net, "buffer", s.net.buffer),
    ),
    "nn: hook": (
        lambda: s.net(s.X),
        lambda: setattr(s, "handle", lin.register_forward_hook(lambda *_: torch.zeros(1))),
        lambda: s.handle.remove(),
    ),
    "nn: ModuleList": (
        lambda: s.net(s.X),
        lambda: s.net.lins.append(torch.nn.Hardtanh(5, 6)),
        lambda: s.net.lins.__delitem__(1),
    ),
    "nn: training": (
        lambda: torch.nn.functional.dropout(s.X, 1.0, s.net.training),
        lambda: s.net.eval(),
        lambda: s.net.train(),
    ),
    "attribute of a parameter": (
        lambda: getattr(weight, "tag", 0),
        setter(weight, "tag", 1),
        deleter(weight, "tag"),
    ),
    "gradient of a parameter": (
        lambda: weight.grad is None,
        setter(weight, "grad", torch.ones(2, 2)),
        setter(weight, "grad", None),
    ),
}


def outcome(program):
    try:
        result = program()
    except Exception as error:  # noqa: BLE001
        return repr(error)
    return repr(result)


@pytest.mark.parametrize("name", READS)
def test_read_is_guarded(name):
    program, change, restore = READS[name]
    before = outcome(program)
    record = _C.record_state(program)
    assert record.error is None and record.impure == []
    assert record.check(), record.explain()
    try:
        change()
        changed = outcome(program) != before
        assert not record.check()
        assert record.explain()
    finally:
        if restore:
            restore()
    assert changed, "the case is to change the result"


# What is back is equal, but not the same: a new entry in the cache, a new dict of children.
MADE_ANEW = ("lru_cache, miss", "nn: ModuleList")


@pytest.mark.parametrize("name", [n for n in READS if READS[n][2] and n not in MADE_ANEW])
def test_guards_hold_again_after_the_change_is_undone(name):
    """Where the very same objects are back, guards hold: no needless compilation."""
    program, change, restore = READS[name]
    record = _C.record_state(program)
    change()
    restore()
    assert record.check(), record.explain()


def test_repeated_runs_keep_guards():
    record = _C.record_state(lambda: s.net(s.X))
    for _ in range(3):
        s.net(s.X)
        assert record.check(), record.explain()


def test_explanation_names_the_place_and_the_values():
    record = _C.record_state(lambda: s.net(s.X), roots={"net": s.net})
    s.net.scale = 7
    try:
        assert not record.check()
        assert record.explain() == "net.scale was 2, is now 7"
    finally:
        s.net.scale = 2


def test_guards_name_file_and_line():
    record = _C.record_state(s.nested)
    lines = {place: (file, line) for _, place, file, line in record.guards}
    assert lines["NUMBER"][0] == s.__file__
    with open(s.__file__) as file:
        assert "return NUMBER" in file.readlines()[lines["NUMBER"][1] - 1]


def test_large_array_is_flagged():
    record = _C.record_state(lambda: s.LARGE_ARRAY[0])
    assert [kind for kind, *_ in record.impure] == ["unreviewed"]


def test_state_of_other_threads_is_not_recorded():
    stop, seen = threading.Event(), []

    def other():
        while not stop.is_set():
            seen.append(s.OBJECT.x)

    thread = threading.Thread(target=other)
    thread.start()
    record = _C.record_state(lambda: [s.NUMBER for _ in range(2000)])
    stop.set()
    thread.join()
    assert seen and not any("OBJECT" in place for _, place, *_ in record.guards)
