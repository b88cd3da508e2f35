"""Calls whose results in eager are no yardstick."""

import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.fuzz.channels import NORMS, has_channels

# Of which eager does not check the shapes. In rows of one element they have a sum of zeros as zero
# or as -0.0, by their layout.
SAME_SHAPES = {"_softmax_backward_data", "_log_softmax_backward_data", "log_sigmoid_backward",
               "mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward",
               "binary_cross_entropy_backward"}  # fmt: skip
DIVIDING = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss")
READS_SIGNS = {"signbit", "copysign"}
EXTREMES = {"amax", "amin", "max", "min", "aminmax"}
# Differences of numbers of about 1, in eager too: errors are those of 1, times the operands.
CANCELLING = {"gelu", "gelu_backward", "silu_backward", "tanh_backward", "sigmoid_backward", "mish",
              "mish_backward", "softplus_backward", "logit", "logit_backward", "_softmax_backward_data",
              "_log_softmax_backward_data", "_log_softmax", "log_softmax"}  # fmt: skip
# Looked up by class, and added up.
SUMS_OF_CLASSES = {"nll_loss_forward", "nll_loss2d_forward"}
VARIANCES = ("var", "std")
# Which may be 0 below the smallest normal number.
UNDERFLOWING = {"_softmax", "softmax", "special_softmax"}
# Which go through a row from its beginning on, or find the first of equal elements.
ORDERED = {"cumsum", "cumprod", "argmax", "argmin", "max", "min"}
# What eager raises of bad arguments.
EAGER_ERRORS = (RuntimeError, IndexError, TypeError, ValueError, OverflowError)
LANES = 64  # as many equal elements as any vector has
HUGE = 1e15
MOST_DIFFERENCES = 100
MOST = 4096  # elements that are looked at


def cancels(op: str) -> bool:
    return op.partition(".")[0].removesuffix("_") in CANCELLING


def underflows(op: str) -> bool:
    return op.partition(".")[0] in UNDERFLOWING


def left_out(op: str, args: list, kwargs: dict) -> str:
    """Why a call is not to be made at all, or ""."""
    name = op.partition(".")[0].removesuffix("_")
    if name == "diag_embed" and args[0].numel() > MOST:
        return "its square takes all memory"
    if name in SAME_SHAPES and len({t.shape for t in args if isinstance(t, torch.Tensor)}) > 1:
        return "eager reads outside of its arguments"
    if name.startswith(DIVIDING) and any(_has_no_floats(t) for t in args):
        return "eager divides integers by 0"
    if name == "diff" and any(type(n) is int and n > MOST_DIFFERENCES for n in args[1:2]):
        return "takes minutes"
    if op in NORMS and any(_has_negative_zero(t) for t in args[1:3]):
        return "zeros of either sign meet in another order"
    if op in NORMS and args and not _fit_channels(args):
        return "eager reads outside of its arguments"
    if name in SAME_SHAPES and any(_has_negative_zero(t) for t in args):
        return "its vectors add zeros in another order"
    if (
        name in EXTREMES
        and any(map(_has_negative_zero, args))
        and any(map(_has_positive_zero, args))
    ):
        return "which zero is the extreme depends on the order"
    if (
        name == "prod"
        and _dtype_of_product(args, kwargs).is_floating_point
        and _depends_on_order(args[0])
    ):
        return "its partial products may leave the range"
    if name in READS_SIGNS and any(t.isnan().any() for t in args if isinstance(t, torch.Tensor)):
        return "the sign of NaN"
    if name in ("_to_copy", "to", "copy", "type_as"):
        return _cast(op, args, kwargs)
    return ""


def _fit_channels(args: list) -> bool:
    sizes = args[0].shape
    parameters = [a for a in args[1:5] if isinstance(a, torch.Tensor)]
    counts = [n for n in args[3:6] if type(n) is int]  # of a group norm
    fitting = not counts or counts == [*sizes[:2], math.prod(sizes[2:])]
    return fitting and len(sizes) > 1 and all(p.shape == sizes[1:2] for p in parameters)


def _dtype_of_product(args: list, kwargs: dict) -> torch.dtype:
    return kwargs.get("dtype") or args[0].dtype


def _depends_on_order(x: torch.Tensor) -> bool:
    sizes = x.double().abs().log().abs().nan_to_num(0, 0, 0)
    return float(sizes.sum()) > (9 if x.dtype == torch.float16 else 40)


def _cast(op: str, args: list, kwargs: dict) -> str:
    """Casts to integers that have no room for the value: what the processor makes of it."""
    source, target = args[0], kwargs.get("dtype")
    if op.startswith("copy_"):
        source, target = args[1], args[0].dtype
    if op.startswith("to.") and len(args) > 1:
        target = args[1]
    if op.startswith("type_as"):
        target = args[1].dtype
    if target is None or not source.dtype.is_floating_point:
        return ""
    if target.is_floating_point or target == torch.bool or source.numel() == 0:
        return ""
    limits = torch.iinfo(target)
    x = source.double()
    inside = (x > float(limits.min) - 1) & (x < float(limits.max) + (1 if limits.bits < 64 else 0))
    return "" if bool(inside.all()) else "integers without room for the value"


def in_two_minds(kind: str, op: Any, args: list, kwargs: dict) -> bool:
    """Whether eager itself has no one result, by the kind of the operator."""
    if has_channels(op._schema.name.removeprefix("aten::")):
        kind = "row"  # also where one of its cases is elementwise
    try:
        if kind in ("pointwise", "in_place"):
            return _lanes_matter(op, args, kwargs)
        if op._schema.name.removeprefix("aten::") in ORDERED:
            return False
        return kind in ("row", "composite") and _order_matters(op, args, kwargs)
    except EAGER_ERRORS:
        return False


def _lanes_matter(op: Any, args: list, kwargs: dict) -> bool:
    """Whether eager's kernel of an elementwise operator computes another result in its vectors than
    in what is left of a tensor: of NaN, infinities, zeros and quotients of which no digit is left."""
    tensors = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
    if any(t.numel() > MOST for t in tensors):  # patterns repeat themselves
        whole = iter(torch.broadcast_tensors(*(t for t in tensors if t.dim())))
        part = lambda t: next(whole).reshape(-1)[:MOST] if getattr(t, "ndim", 0) else t
        args, kwargs = pytree.tree_map(part, (args, kwargs))
        tensors = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
    zero_dim = all(t.dim() == 0 for t in tensors)

    def spread(contiguous: bool) -> list[torch.Tensor]:
        def widened(t: Any) -> Any:
            if not isinstance(t, torch.Tensor) or (t.dim() == 0 and not zero_dim):
                return t
            lanes = t.unsqueeze(-1).expand(*t.shape, LANES if contiguous else 2).contiguous()
            return lanes if contiguous else lanes[..., :1]

        results = op(*pytree.tree_map(widened, args), **pytree.tree_map(widened, kwargs))
        return [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]

    rest = spread(False)
    if not any(_is_special(t) for t in (*tensors, *rest) if t.dtype.is_floating_point):
        return False
    vectors = spread(True)
    return any(not _alike(v, r[..., :1].expand_as(v)) for v, r in zip(vectors, rest) if r.dim())


def _order_matters(op: Any, args: list, kwargs: dict) -> bool:
    """Whether a reduction in eager has NaN, infinities or zeros of another sign, going through rows
    backwards."""
    tensors = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
    if not any(_is_special(t) for t in tensors if t.dtype.is_floating_point):
        return False

    if any(_is_wide(t) for t in tensors if t.dtype.is_floating_point and t.numel()):
        return True  # squares leave the range

    def turned(t: Any) -> Any:
        return t.flip(tuple(range(t.dim()))) if isinstance(t, torch.Tensor) else t

    found = []
    for change in (lambda t: t, turned):
        results = op(*pytree.tree_map(change, args), **pytree.tree_map(change, kwargs))
        found.append([r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)])
    return any(not _alike(a, turned(b)) for a, b in zip(*found))


def _is_wide(t: torch.Tensor) -> bool:
    finite = t.double().nan_to_num(0, 0, 0)
    return bool((finite.max() - finite.min()) > HUGE)


def _has_no_floats(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and not (t.dtype.is_floating_point and t.numel())


def _has_positive_zero(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and bool(((t == 0) & ~t.signbit()).any())


def _has_negative_zero(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and bool(((t == 0) & t.signbit()).any())


def _is_special(t: torch.Tensor) -> bool:
    return bool((~torch.isfinite(t) | (t == 0) | (t.abs() > HUGE)).any())


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    a, b = a.double(), b.double()
    same = (a.isnan() & b.isnan()) | ((a == b) & ((a != 0) | (a.signbit() == b.signbit())))
    near = torch.isfinite(a) & torch.isfinite(b) & ((a - b).abs() < 0.01 * (a.abs() + b.abs()))
    return bool((same | near).all())
