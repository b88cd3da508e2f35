"""Programs that keep state in objects and containers in ways that few programs do."""

import bisect
import collections
import contextvars
import dataclasses
import enum
import functools
import heapq
import types
import weakref

import torch

from tests.e2e.hostile_registry import nothing, program


@program
def data_descriptor():
    class Scaled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return getattr(instance, self.name) * 2

        def __set__(self, instance, value):
            setattr(instance, self.name, value + 1)

    class Thing:
        k = Scaled()

    thing = Thing()
    thing.k = 1

    def f(x):
        thing.k = thing.k
        return x * thing.k

    return f, lambda i: setattr(thing, "_k", i), lambda: vars(thing).copy()


@program
def property_with_side_effect():
    class Thing:
        reads = 0

        @property
        def k(self):
            self.reads += 1
            return self.reads

    thing = Thing()
    return (lambda x: x * thing.k), nothing, lambda: thing.reads


@program
def getattr_hook():
    class Thing:
        def __init__(self):
            self.table = {"k": 3}

        def __getattr__(self, name):
            try:
                return self.__dict__["table"][name]
            except KeyError:
                raise AttributeError(name) from None

    thing = Thing()
    return (
        lambda x: x * thing.k * getattr(thing, "z", 1),
        lambda i: thing.table.update(k=i, **({"z": 5} if i == 2 else {})),
        nothing,
    )


@program
def getattribute_hook():
    class Thing:
        k = 2

        def __getattribute__(self, name):
            value = object.__getattribute__(self, name)
            return value + 1 if name == "k" else value

    thing = Thing()
    return (lambda x: x * thing.k), lambda i: setattr(thing, "k", i), nothing


@program
def metaclass_call_and_attribute():
    class Meta(type):
        made = 0
        scale = 3

        def __call__(cls, *args):
            Meta.made += 1
            return super().__call__(*args)

    class Thing(metaclass=Meta):
        def __init__(self, k):
            self.k = k

    return (
        lambda x: x * Thing(2).k * Thing.scale,
        lambda i: setattr(Meta, "scale", i),
        lambda: Meta.made,
    )


@program
def metaclass_instance_check():
    class Meta(type):
        allowed = {int}

        def __instancecheck__(cls, instance):
            return type(instance) in cls.allowed

    class Number(metaclass=Meta):
        pass

    return (
        lambda x: x * 2 if isinstance(1.5, Number) else x * 3,
        lambda i: Meta.allowed.add(float) if i == 1 else Meta.allowed.clear(),
        nothing,
    )


@program
def context_variable():
    variable = contextvars.ContextVar("scale", default=1)

    def f(x):
        variable.set(variable.get() + 1)
        return x * variable.get()

    return f, nothing, variable.get


@program
def copied_context():
    variable = contextvars.ContextVar("scale2", default=1)
    context = contextvars.copy_context()
    return (
        lambda x: x * context.run(variable.get),
        lambda i: context.run(variable.set, i),
        nothing,
    )


@program
def weak_reference():
    class Thing:
        k = 2

    kept = [Thing()]
    reference = weakref.ref(kept[0])

    def f(x):
        thing = reference()
        return x * (thing.k if thing is not None else 7)

    return f, lambda i: kept.clear() if i == 1 else None, nothing


@program
def weak_dictionary():
    class Thing:
        pass

    keys = [Thing(), Thing()]
    table = weakref.WeakKeyDictionary({key: 1 for key in keys})
    return (lambda x: x * len(table)), lambda i: keys.pop() if keys else None, nothing


@program
def generator_kept_across_calls():
    def count():
        n = 0
        while True:
            n += 1
            yield n

    numbers = count()
    return (lambda x: x * next(numbers)), nothing, nothing


@program
def generator_made_inside():
    values = [1, 2, 3]

    def pick():
        yield from values

    return (lambda x: sum(x * v for v in pick())), lambda i: values.append(i), nothing


@program
def exceptions_as_control_flow():
    table = {}

    def f(x):
        try:
            return x * table["k"]
        except KeyError as error:
            table[error.args[0]] = 2
            return x
        finally:
            table["n"] = table.get("n", 0) + 1

    return f, nothing, lambda: dict(table)


@program
def dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Config:
        k: int = 2
        n: int = 0

    config = Config()

    def f(x):
        config.n += 1
        return x * config.k

    return f, lambda i: setattr(config, "k", i), lambda: (config.k, config.n)


@program
def frozen_dataclass_replaced():
    @dataclasses.dataclass(frozen=True)
    class Config:
        k: int = 2

    holder = types.SimpleNamespace(config=Config())

    def f(x):
        holder.config = dataclasses.replace(holder.config, k=holder.config.k + 1)
        return x * holder.config.k

    return f, nothing, lambda: holder.config.k


@program
def enumeration():
    class Mode(enum.Enum):
        A = 1
        B = 2

    class Bits(enum.IntFlag):
        LOW = 1
        HIGH = 2

    holder = types.SimpleNamespace(mode=Mode.A, bits=Bits.LOW)

    def f(x):
        scale = 3 if holder.bits & Bits.HIGH else 1
        return x * scale * Mode["A"].value if holder.mode is Mode.A else x * Mode(2).value

    def change(i):
        holder.mode = Mode.B if i == 1 else Mode.A
        holder.bits ^= Bits.HIGH

    return f, change, nothing


@program
def partial_changed():
    table = {"k": 2}
    scale = functools.partial(lambda x, k, table: x * k * table["k"], k=3, table=table)
    return scale, lambda i: (scale.keywords.update(k=i), table.update(k=i + 5)), nothing


@program
def single_dispatch():
    @functools.singledispatch
    def scale(value):
        return 1

    scale.register(int, lambda value: value + 1)
    return (
        lambda x: x * scale(2) * scale(2.5),
        lambda i: scale.register(float, lambda value: i) if i else None,
        nothing,
    )


@program
def cached_property():
    class Thing:
        made = 0

        @functools.cached_property
        def k(self):
            Thing.made += 1
            return Thing.made * 2

    thing = Thing()
    return (
        lambda x: x * thing.k,
        lambda i: vars(thing).pop("k", None) if i == 1 else None,
        lambda: (Thing.made, dict(vars(thing))),
    )


@program
def cached_property_of_tensor():
    class Thing:
        weight = torch.ones(3)

        @functools.cached_property
        def double(self):
            return self.weight * 2

    thing = Thing()
    return (
        (lambda x: x + thing.double),
        nothing,
        lambda: {k: v.clone() for k, v in vars(thing).items()},
    )


@program
def lru_cache_statistics():
    @functools.lru_cache(maxsize=2)
    def scale(n):
        return n + 1

    return (lambda x: x * scale(2)), lambda i: scale(i), lambda: scale.cache_info()


@program
def default_dict():
    table = collections.defaultdict(lambda: 3)
    return (
        lambda x: x * table[len(table)],
        lambda i: table.update({i: 7}),
        lambda: dict(table),
    )


@program
def chain_map():
    first, second = {}, {"k": 2}
    table = collections.ChainMap(first, second)

    def f(x):
        table["n"] = table.get("n", 0) + 1
        return x * table["k"]

    return f, lambda i: first.update(k=i) if i == 2 else second.update(k=i), lambda: dict(table)


@program
def ordered_dict_moved():
    table = collections.OrderedDict(a=1, b=2, c=3)

    def f(x):
        table.move_to_end(next(iter(table)))
        return x * next(iter(table.values()))

    return f, lambda i: table.move_to_end("b", last=False) if i == 1 else None, lambda: list(table)


@program
def heap_and_bisect():
    heap, ordered = [3, 5, 9], [1, 4, 8]

    def f(x):
        k = heapq.heappop(heap)
        bisect.insort(ordered, k)
        heapq.heappush(heap, k + 10)
        return x * bisect.bisect(ordered, 4)

    return f, lambda i: ordered.insert(0, i), lambda: (list(heap), list(ordered))


@program
def sets():
    members, frozen = {1, 2}, [frozenset({1, 2})]

    def f(x):
        members.add(len(members) + 10)
        members.discard(1)
        return x * sum(members) * len(frozen[0] | members)

    def change(i):
        members.add(i)
        frozen[0] = frozenset({i, 1, 2})

    return f, change, lambda: sorted(members)


@program
def dict_views():
    table = {"a": 1, "b": 2}
    keys, values, items = table.keys(), table.values(), table.items()
    return (
        lambda x: x * (len(keys) + sum(values)) * len(items),
        lambda i: table.update({str(i): i}),
        nothing,
    )


@program
def mapping_proxy():
    table = {"k": 2}
    proxy = types.MappingProxyType(table)
    return (lambda x: x * proxy["k"] * len(proxy)), lambda i: table.update(k=i, z=1), nothing


@program
def cache_of_the_last_results():
    """What a small LRU cache does: a look at the length after each store."""
    kept, wanted = collections.OrderedDict(), [0]

    def f(x):
        key = wanted[0]
        if key not in kept:
            kept[key] = x * 2
            if len(kept) > 2:
                kept.popitem(last=False)
        return kept[key] * len(kept)

    return f, lambda i: wanted.__setitem__(0, i % 3), lambda: list(kept)


@program
def features_of_one_call():
    features = {}

    def f(x):
        features.clear()
        for name in ("a", "b"):
            features[name] = x * (len(features) + 2)
        return sum(features.values()) if features else x

    return f, nothing, lambda: list(features.items())


@program
def key_for_one_call():
    context = {}

    def f(x):
        context["active"] = 1
        y = x * (2 if context else 3) * len(context)
        del context["active"]
        return y

    return f, lambda i: context.update({i: 1}) if i == 1 else context.clear(), lambda: dict(context)


@program
def set_for_one_call():
    active = set()

    def f(x):
        active.add("k")
        y = x * len(active)
        active.discard("k")
        return y

    return f, lambda i: active.add("k" if i % 2 else i), lambda: len(active)


@program
def hooks_for_one_call():
    model = torch.nn.Sequential(torch.nn.Hardtanh(), torch.nn.ReLU())
    seen = []

    def f(x):
        seen.clear()
        handle = model[0].register_forward_hook(lambda module, given, result: seen.append(result))
        try:
            y = model(x)
        finally:
            handle.remove()
        return y + seen[0]

    return f, nothing, lambda: len(model[0]._forward_hooks)


@program
def attributes_for_one_call():
    holder = types.SimpleNamespace(k=2)

    def f(x):
        holder.extra = 3
        y = x * len(vars(holder)) * holder.extra
        del holder.extra
        return y

    return f, lambda i: setattr(holder, "extra" if i == 1 else "m", 1), lambda: vars(holder).copy()


@program
def flag_set_again():
    """A write that changes nothing at first."""
    holder = types.SimpleNamespace(flag=True)

    def f(x):
        holder.flag = True
        return x * 2

    return f, lambda i: setattr(holder, "flag", i != 1), lambda: holder.flag


@program
def absent_attribute_removed():
    holder = types.SimpleNamespace()

    def f(x):
        try:
            del holder.k
        except AttributeError:
            return x
        return x * 2

    return f, lambda i: setattr(holder, "k", i) if i % 2 else None, lambda: vars(holder).copy()


@program
def module_called_with_a_generator():
    class Adds(torch.nn.Module):
        def forward(self, a, b):
            return a + b * scales[0]

    adds, scales = Adds(), [2]
    return (
        lambda x: adds(*(x * k for k in scales + [3])),
        lambda i: scales.__setitem__(0, i),
        nothing,
    )
