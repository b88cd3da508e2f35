"""Calls of torch's operator database, with arguments of several memory layouts."""

import itertools
import warnings

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# The database looks for a unittest.TestCase in the sources of the whole stack, for every sample: that
# takes longer than all else, and there is none.
common_utils.extract_test_fn = lambda: None


def swapped(t):
    """The first and the last dimension in the other order of strides."""
    return t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() > 1 else t


def channels_last(t):
    if t.dim() == 4:
        return t.contiguous(memory_format=torch.channels_last)
    if t.dim() == 5:
        return t.contiguous(memory_format=torch.channels_last_3d)
    return t


def with_gaps(t):
    return torch.stack([t, t], -1)[..., 0] if t.dim() else t


def expanded(t):
    return t[:1].expand_as(t) if t.dim() > 1 and t.size(0) > 0 else t


LAYOUTS = {
    "plain": lambda t: t,
    "swapped": swapped,
    "channels_last": channels_last,
    "with_gaps": with_gaps,
    "expanded": expanded,
}
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def laid_out(t, layout):
    if not isinstance(t, torch.Tensor) or t.layout != torch.strided or t.is_quantized:
        return t
    with torch.no_grad():
        changed = layout(t.detach())
    return changed.requires_grad_(t.requires_grad)


def tensors_of(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def run(op, sample, layout):
    """The operator on one sample, and its gradients."""
    given = (sample.input, sample.args, sample.kwargs)
    first, args, kwargs = pytree.tree_map(lambda t: laid_out(t, layout), given)
    out = op(first, *args, **kwargs)
    results = [t for t in tensors_of(out) if t.requires_grad]
    inputs = [t for t in tensors_of((first, args, kwargs)) if t.requires_grad]
    if results and inputs:
        ones = [torch.ones_like(t) for t in results]
        torch.autograd.grad(results, inputs, ones, allow_unused=True)


def samples_of(op, dtype, at_most):
    differentiable = dtype.is_floating_point and op.supports_autograd
    try:
        samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
        samples = list(itertools.islice(samples, 1) if at_most == 1 else samples)
    except (RuntimeError, NotImplementedError, ValueError):
        return []
    return samples[:: max(1, -(-len(samples) // at_most))]


def exercise(mode, at_most, dtypes=DTYPES, names=None):
    """Runs the database under `mode`; layouts other than plain for float32 alone."""
    for op in op_db:
        if names is not None and not names.search(op.name):
            continue
        for dtype in dtypes:
            if dtype not in op.dtypes:
                continue
            for sample in samples_of(op, dtype, at_most):
                for name, layout in LAYOUTS.items():
                    if name == "plain" or dtype == torch.float32:
                        mode.label = f"{op.name}/{str(dtype)[6:]}/{name}"
                        quietly(mode, lambda: run(op, sample, layout))
        if op.error_inputs_func:
            for case in op.error_inputs("cpu"):
                mode.label = f"{op.name}/error"
                quietly(mode, lambda: run(op, case.sample_input, LAYOUTS["plain"]))


def quietly(mode, f):
    # What a sample raises is compared by the mode, not here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with mode:
                f()
        except Exception:
            pass
