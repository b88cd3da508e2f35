"""The round trip of every operator that PyTorch has samples for."""

import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from fulgurite import _C, UserError
from tests.e2e.round_trip import capture, round_trip


def programs():
    """(name, function of tensors, tensors) for the first sample of each."""
    for operator in op_db:
        if torch.float32 not in operator.supported_dtypes("cpu"):
            continue
        sample = next(iter(operator.sample_inputs("cpu", torch.float32)))
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = [leaves[i] for i in places]
        if any(type(t) is not torch.Tensor or t.layout != torch.strided for t in tensors):
            continue

        def function(*given, leaves=leaves, places=places, structure=structure, op=operator.op):
            mine = list(leaves)
            for i, tensor in zip(places, given):
                mine[i] = tensor
            first, args, kwargs = tree_unflatten(mine, structure)
            return op(first, *args, **kwargs)

        yield operator.formatted_name, function, tensors


@torch.no_grad()
def test_operators():
    captured, wrong = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function, tensors in programs():
            try:
                program = capture(function, tensors)
            except (UserError, NotImplementedError, RuntimeError, AssertionError):
                continue  # needs data, or has no meta kernel: not for here
            captured += 1
            everything = [*tensors, *program.lifted]
            for trace in [program.trace, *_C.compile_captured(program, True).series]:
                if difference := round_trip(trace, everything):
                    wrong[name, trace.provenance] = difference
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert captured > 500
