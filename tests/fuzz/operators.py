"""The operators of random programs: those with a rule in the catalogue, and some for company."""

import functools
from dataclasses import dataclass
from typing import Any

import torch

from fulgurite import _C
from tests.fuzz.programs import overload

# Composites of operators with rules, as users call them: what they record has a body.
COMPOSITES = """
    softmax.int log_softmax.int layer_norm rms_norm std.dim var.dim mean square isfinite relu6 celu
    selu tanhshrink float_power.Tensor_Scalar deg2rad reshape flatten.using_ints where.ScalarOther
    where.ScalarSelf where.Scalar type_as contiguous chunk special_softmax logical_xor ldexp.Tensor
    multiply.Tensor subtract.Tensor true_divide.Tensor greater.Tensor absolute negative clip
    special_expit special_logit movedim.int swapaxes unflatten.int expand_as view_as log_sigmoid
    nan_to_num prelu glu hardswish threshold max.other min.other sum mean.dim to.dtype std_mean.dim
    var_mean.dim T mT narrow tensor_split.sections diff norm.ScalarOpt_dim linalg_norm cosine_similarity
""".split()
# What no loop computes, and what only moves elements.
OTHERS = """
    mm bmm matmul sort topk rot90 nansum median count_nonzero as_strided digamma lgamma gcd
    repeat_interleave.self_int index_put index_add scatter.src masked_fill_.Scalar cummax
""".split()
# Of these the results depend on more than their arguments, they read outside of arguments of other
# sizes or by indices out of bounds, or they write to other arguments than the first.
LEFT_OUT = {
    "_reshape_alias",
    "_unsafe_view",
    "nll_loss_backward",
    "nll_loss2d_backward",
    "native_layer_norm_backward",
    "native_batch_norm_backward",
    "batch_norm_backward",
    "_native_batch_norm_legit",
}


@dataclass(frozen=True)
class Operator:
    """kind: "pointwise", "row", "move", "element", "draw", "composite", "other", "in_place". jumps: a small
    change of a float argument may change the result by a lot."""

    name: str
    kind: str
    jumps: bool
    op: Any

    @property
    def schema(self) -> Any:
        return self.op._schema


def _exists(name: str) -> Any:
    try:
        return overload(name)
    except AttributeError:
        return None


@functools.cache
def operators() -> dict[str, Operator]:
    """By name."""
    found = {
        name: Operator(name, kind, jumps, overload(name))
        for name, kind, jumps in _C.loops.rules()
        if name not in LEFT_OUT and "::" not in name
    }
    for kind, names in (("composite", COMPOSITES), ("other", OTHERS)):
        for name in names:
            if name not in found and _exists(name) is not None:
                found[name] = Operator(name, kind, False, overload(name))
    for one in list(found.values()):
        name, _, which = one.name.partition(".")
        writing = _exists(f"{name}_.{which}") if which else _exists(name + "_")
        if one.kind == "pointwise" and writing is not None and _writes_self(writing._schema):
            found[f"{name}_.{which}" if which else name + "_"] = Operator(
                f"{name}_.{which}" if which else name + "_", "in_place", one.jumps, writing
            )
    found["copy_"] = Operator("copy_", "in_place", True, torch.ops.aten.copy_.default)
    return found


def _writes_self(schema: Any) -> bool:
    info = schema.arguments[0].alias_info
    return info is not None and info.is_write


@functools.cache
def by_kind() -> dict[str, list[Operator]]:
    kinds: dict[str, list[Operator]] = {}
    for one in operators().values():
        kinds.setdefault(one.kind, []).append(one)
    return kinds


def with_rules() -> list[str]:
    """The operators that the executor could fuse."""
    kinds = ("pointwise", "row", "move", "element", "draw")
    return [o.name for o in operators().values() if o.kind in kinds]
