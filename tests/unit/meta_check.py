"""Compares inferred result types with the real kernels', call by call, below autograd.

`Checker` is a dispatch mode: every operator call that comes by is also inferred, from meta twins of
its arguments, and the geometry of the results, or the class of the error, must be the same.
"""

import collections

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fulgurite
from fulgurite import _C

ERRORS = (RuntimeError, IndexError, ValueError, TypeError)


def short_name(schema):
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
            flat = torch.empty(n, dtype=torch.uint8, device="meta")
            self.of_storage[key] = flat.untyped_storage()
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


def tensors(values):
    return [v for v in flat(values) if isinstance(v, torch.Tensor)]


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
        same = type(real) is type(inferred)
        return None if same else f"{describe(real)} inferred as {describe(inferred)}"
    if geometry(real) != geometry(inferred):
        return f"{geometry(real)} inferred as {geometry(inferred)}"
    # A kernel may use a larger storage for a while; one smaller than inferred would be an error.
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


def infer_by_rule(schema, metas):
    with Silence():
        return _C.infer_by_rule(schema.name, schema.overload_name, metas)


def infer_as_capture(schema, metas):
    return _C.infer(schema.name, schema.overload_name, metas)


class Checker(TorchDispatchMode):
    """`names`: the operators to look at, None for all that do not read data."""

    def __init__(self, infer, names=None):
        super().__init__()
        self.infer, self.names = infer, names
        self.calls = collections.Counter()  # operator -> calls compared
        self.errors = collections.Counter()  # operator -> errors compared
        self.wrong = {}  # operator -> the first difference
        self.undetected = {}  # operator -> the first error that is not inferred
        self.label = ""

    def looks_at(self, schema):
        if self.names is not None:
            return short_name(schema) in self.names
        return not _C.op_facts(schema.name, schema.overload_name)["reads_data"]

    def note(self, where, schema, args, what):
        name = short_name(schema)
        where.setdefault(name, f"{self.label}: {name}({', '.join(args)}): {what}")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        if not self.looks_at(schema):
            return func(*args, **kwargs)
        full = written_out(schema, args, kwargs)
        before = list(map(describe, full))
        twins = Twins()
        metas = twins.value(full)
        try:
            out = func(*args, **kwargs)
        except ERRORS as real:
            self.check_error(schema, metas, before, real)
            raise
        try:
            inferred = self.infer(schema, metas)
        except fulgurite.Unsupported:
            return out
        except NotImplementedError as refusal:
            if not str(refusal).startswith("its result is"):  # of a kind that no trace can hold
                self.note(self.wrong, schema, before, f"raises {refusal!r}")
            return out
        except Exception as e:
            self.note(self.wrong, schema, before, f"raises {e!r}")
            return out
        self.calls[short_name(schema)] += 1
        results = list(flat(out if len(schema.returns) != 1 else (out,)))
        inferred = list(flat(inferred))
        if len(results) != len(inferred):
            what = f"{len(results)} results, {len(inferred)} inferred"
            self.note(self.wrong, schema, before, what)
        # Arguments may have been given another geometry.
        pairs = [*zip(results, inferred), *zip(tensors(full), tensors(metas))]
        for r, i in pairs:
            if what := compare(r, i, twins):
                self.note(self.wrong, schema, before, what)
        return out

    def check_error(self, schema, metas, before, real):
        try:
            self.infer(schema, metas)
        except fulgurite.Unsupported:
            return
        except ERRORS as inferred:
            self.errors[short_name(schema)] += 1
            if type(inferred) is not type(real):
                self.note(self.wrong, schema, before, f"{real!r} inferred as {inferred!r}")
        except Exception as inferred:
            self.note(self.wrong, schema, before, f"{real!r} inferred as {inferred!r}")
        else:
            self.note(self.undetected, schema, before, str(real))
