"""Runs a program eagerly and after each pass, and compares all that the caller can see."""

import torch

from fulgurite import _C

passes = _C.passes


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [t for value in result.values() for t in tensors_of(value)]
    if isinstance(result, (list, tuple)):
        return [t for value in result for t in tensors_of(value)]
    return []


class Twins:
    """Copies of tensors that share storages as the originals do."""

    def __init__(self):
        self.storages = {}

    def of(self, tensors):
        return [self.one(t) for t in tensors]

    def one(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = (storage.clone(), storage)
        twin = torch.empty(0, dtype=tensor.dtype)
        copy = self.storages[storage._cdata][0]
        twin.set_(copy, tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.is_conj():
            twin = twin.conj()
        return twin.requires_grad_(tensor.requires_grad)


def relation(tensors):
    """Which tensors are one, which share a storage, and where they lie in it."""
    objects, storages = {}, {}
    rows = []
    for t in tensors:
        storage = t.untyped_storage()._cdata
        shared = sum(o.untyped_storage()._cdata == storage for o in tensors) > 1
        rows.append(
            (
                objects.setdefault(id(t), len(objects)),
                storages.setdefault(storage, len(storages)),
                t.storage_offset() if shared else None,
                tuple(t.shape),
                t.stride() if t.numel() else None,
                t.is_conj(),
                t.is_neg(),
            )
        )
    return rows


def same_bits(a, b):
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    a, b = (t.detach().resolve_conj().resolve_neg().contiguous() for t in (a, b))
    return torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8))


def prepare(make, inputs):
    torch.manual_seed(0)
    function = make()
    return function, [make_input() for make_input in inputs]


def capture(function, inputs):
    tracer = _C.Tracer()
    traced = [tracer.input(x, f"x{i}") for i, x in enumerate(inputs)]
    with tracer:
        result = tensors_of(function(*traced))
    return tracer.finish(result)


def replayed(trace, given, like):
    """What `given` hold after a run on twins of them, and the outputs."""
    twins = Twins().of(given)
    torch.manual_seed(1)
    outputs = trace.replay(twins)
    assert len(outputs) in (like, 0)
    return twins, outputs


def assert_same(is_, expected, what):
    for i, (a, b) in enumerate(zip(is_, expected, strict=True)):
        assert same_bits(a, b), f"{what} {i}"


def variants_of(trace, pure):
    """The trace after more and more passes, with functionalise and without."""
    variants = {"captured": trace, "functionalised": pure}
    for name, start in list(variants.items()):
        last = start
        for run in (
            passes.dead_code,
            passes.common_subexpressions,
            passes.fold,
            passes.place,
            passes.delete_last_used,
        ):
            last = run(last)
            last.verify()
            variants[f"{name}, {run.__name__}"] = last
    return variants


def check(make, inputs, always_pure=True):
    function, given = prepare(make, inputs)
    captured = capture(function, given)
    given = [*given, *captured.lifted]
    before = Twins().of(given)
    trace = captured.trace
    trace.verify()

    pure = passes.functionalise(trace)
    pure.verify()
    assert pure.epilogue >= 0 or not always_pure
    variants = variants_of(trace, pure)
    count = len(trace.outputs)
    runs = {name: replayed(variant, given, count) for name, variant in variants.items()}
    untouched, _ = replayed(passes.pure_part(pure), given, count)
    types = _C.check_types(pure, Twins().of(given))

    # Eager last: it writes to the tensors that were lifted.
    torch.manual_seed(1)
    arguments = given[: len(inputs)]
    eager = tensors_of(function(*arguments))
    for name, (after, outputs) in runs.items():
        assert_same(after, given, f"{name}: input")
        assert_same(outputs, eager, f"{name}: output")
        assert relation([*after, *outputs]) == relation([*given, *eager]), name
    if pure.epilogue >= 0:
        assert_same(untouched, before, "the pure part writes to input")
    assert types == ""
    return pure
