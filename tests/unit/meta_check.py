"""Compares meta rules with the real kernels, call by call, below autograd.

`Checker` is a dispatch mode: every operator call that comes by and has a rule is also inferred, from meta twins of its
arguments, and the geometry of the results, or the class of the error, must be the same.
"""

import collections

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fulgurite import _C



def rule_name(func):
    schema = func._schema
    name = schema.name.removeprefix("aten::")
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def ruled_overloads():
    """All operators with a rule, those that follow from a functional form's included."""
    rules = set()
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.partition(".")
        if full.startswith("aten::") and _C.has_rule(name, overload):
            rules.add(full.removeprefix("aten::"))
    return rules


RULES = ruled_overloads()


def written_out(schema, args, kwargs):
    """The arguments in the order of the schema, defaults included."""
    result = []
    for i, a in enumerate(schema.arguments):
        if i < len(args) and not a.kwarg_only:
            result.append(args[i])
        elif a.name in kwargs:
            result.append(kwargs[a.name])
        else:
            result.append(a.default_value)
    return result


class Twins:
    """Meta tensors with the geometry and the aliasing of real ones."""

    def __init__(self):
        self.of_tensor, self.of_storage, self.kept = {}, {}, []

    def storage(self, real):
        key = real.untyped_storage()._cdata
        if key not in self.of_storage:
            n = real.untyped_storage().nbytes()
            self.of_storage[key] = torch.empty(n, dtype=torch.uint8, device="meta").untyped_storage()
        return self.of_storage[key]

    def tensor(self, real):
        if id(real) not in self.of_tensor:
            twin = torch.empty(0, dtype=real.dtype, device="meta")
            twin.set_(self.storage(real), real.storage_offset(), real.size(), real.stride())
            self.of_tensor[id(real)] = twin
            self.kept.append(real)
        return self.of_tensor[id(real)]

    def value(self, v):
        if isinstance(v, torch.Tensor):
            return self.tensor(v)
        if isinstance(v, (list, tuple)):
            return [self.value(x) for x in v]
        if isinstance(v, torch.device):
            return torch.device("meta")
        if isinstance(v, torch.Generator):
            return None
        return v


def flat(results):
    for r in results:
        if isinstance(r, (list, tuple)):
            yield from flat(r)
        else:
            yield r


def geometry(t):
    return (tuple(t.size()), tuple(t.stride()), t.dtype, t.storage_offset())


def describe(v):
    if isinstance(v, torch.Tensor):
        return f"{str(v.dtype)[6:]}{tuple(v.size())}{tuple(v.stride())}"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(describe, v)) + "]"
    return repr(v)


def compare(real, inferred, twins):
    """What is wrong with one result, or None."""
    if not isinstance(real, torch.Tensor) or not isinstance(inferred, torch.Tensor):
        return None if type(real) is type(inferred) else f"{describe(real)} inferred as {describe(inferred)}"
    if geometry(real) != geometry(inferred):
        return f"{geometry(real)} inferred as {geometry(inferred)}"
    # A kernel may use a larger storage for a while; a smaller one than inferred would be an error.
    if inferred.untyped_storage().nbytes() > real.untyped_storage().nbytes():
        return f"{describe(real)} is inferred with a storage that is too large"
    if (id(real) in twins.of_tensor) != any(inferred is t for t in twins.of_tensor.values()):
        return "an argument is returned by one of the two only"
    shared = twins.of_storage.get(real.untyped_storage()._cdata)
    inferred_key = inferred.untyped_storage()._cdata
    if shared is None:
        if inferred_key in {s._cdata for s in twins.of_storage.values()}:
            return "a fresh result is inferred as a view"
    elif shared._cdata != inferred_key:
        return "a view is inferred as a fresh result"
    return None


class Silence(TorchDispatchMode):
    """Rules must not reach the dispatcher with tensors: it costs, and a tracer may see it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not args and not kwargs:
            return func()  # a question to the build, such as _nnpack_available
        raise AssertionError(f"a rule dispatches to {func}")


def infer(func, metas):
    with Silence():
        return _C.infer_meta(func._schema.name, func._schema.overload_name, metas)


class Checker(TorchDispatchMode):
    def __init__(self, rules=None):
        super().__init__()
        self.rules = RULES if rules is None else rules
        self.calls = collections.Counter()  # rule -> calls compared
        self.errors = collections.Counter()  # rule -> errors compared
        self.wrong = {}  # rule -> the first difference
        self.undetected = {}  # rule -> the first error that the rule does not raise
        self.label = ""

    def blame(self, name, what, args):
        self.wrong.setdefault(name, f"{self.label}: {name}({', '.join(map(describe, args))}): {what}")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = rule_name(func)
        if name not in self.rules:
            return func(*args, **kwargs)
        full = written_out(func._schema, args, kwargs)
        twins = Twins()
        metas = twins.value(full)
        before = list(map(describe, full))
        try:
            out = func(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError) as real:
            try:
                infer(func, metas)
                self.undetected.setdefault(name, f"{self.label}: {name}({', '.join(before)}): {real}")
            except (RuntimeError, IndexError, ValueError, TypeError) as inferred:
                self.errors[name] += 1
                if type(inferred) is not type(real):
                    self.blame(name, f"{real!r} inferred as {inferred!r}", full)
            raise
        try:
            inferred = infer(func, metas)
        except Exception as e:
            self.blame(name, f"raises {e!r}", full)
            return out
        self.calls[name] += 1
        results = out if len(func._schema.returns) != 1 else (out,)
        results, inferred = list(flat(results)), list(flat(inferred))
        if len(results) != len(inferred):
            self.blame(name, f"{len(results)} results, {len(inferred)} inferred", full)
        for r, i in zip(results, inferred):
            if what := compare(r, i, twins):
                self.wrong.setdefault(name, f"{self.label}: {name}({', '.join(before)}): {what}")
        return out
