"""Tensors, results and gradients of a compiled call against those of an eager one."""

import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.trees import (
    alias_signature,
    identity_signature,
    is_plain,
    structure,
    tensors_of,
)
from tests.conformance.verdict import META, VALUE, Failure

# Relative and absolute; the latter is multiplied by the largest finite magnitude, at least 1.
TOLERANCES = {
    torch.float64: (1e-6, 1e-7),
    torch.float32: (1e-4, 2e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (2e-2, 2e-2),
    torch.complex128: (1e-6, 1e-7),
    torch.complex64: (1e-4, 2e-5),
    torch.complex32: (8e-3, 8e-3),
}
EIGHT_BIT_FLOATS = (0.13, 0.07)

COMPARED_CONSTANTS = (int, float, bool, str, complex, torch.Size, torch.dtype)


def _as_float64(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.to(torch.complex128))
    return tensor.to(torch.float64)


def _as_integers(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype == torch.uint64:
        return tensor.contiguous().view(torch.int64)
    return tensor.to(torch.int64)


def check_values(
    expected: torch.Tensor,
    actual: torch.Tensor,
    where: str,
    *,
    signed_zeros: bool = False,
    soft: set[str] | None = None,
) -> None:
    """signed_zeros: the sign of a zero counts; elsewhere a difference is noted in `soft`."""
    if expected.is_nested:
        parts = zip(expected.unbind(), actual.unbind(), strict=True)
        for i, (e, a) in enumerate(parts):
            check_values(e, a, f"{where}[{i}]", signed_zeros=signed_zeros, soft=soft)
        return
    if expected.numel() == 0:
        return
    if expected.is_floating_point() or expected.is_complex() or expected.is_quantized:
        _check_floats(expected, actual, where, signed_zeros, soft)
    else:
        e, a = _as_integers(expected), _as_integers(actual)
        _report(e != a, e, a, where, "int_or_bool", expected.dtype)


def _check_floats(
    expected: torch.Tensor,
    actual: torch.Tensor,
    where: str,
    signed_zeros: bool,
    soft: set[str] | None,
) -> None:
    relative, absolute = TOLERANCES.get(expected.dtype, EIGHT_BIT_FLOATS)
    e, a = _as_float64(expected), _as_float64(actual)
    finite = torch.isfinite(e)
    scale = max(1.0, float(e[finite].abs().max())) if finite.any() else 1.0
    both = finite & torch.isfinite(a)
    far = ((e - a).abs() > relative * e.abs() + absolute * scale) & both
    _report(far, e, a, where, "float", expected.dtype)
    same = (e == a) | (torch.isnan(e) & torch.isnan(a))
    _report(~same & ~both, e, a, where, "nonfinite", expected.dtype)
    zeros = (e == 0) & (a == 0) & (torch.signbit(e) != torch.signbit(a))
    if signed_zeros:
        _report(zeros, e, a, where, "signed_zero", expected.dtype)
    if soft is not None:
        if zeros.any():
            soft.add("signed_zero")
        if not same.all():
            soft.add("rounding")


def _report(
    bad: torch.Tensor,
    expected: torch.Tensor,
    actual: torch.Tensor,
    where: str,
    kind: str,
    dtype: torch.dtype,
) -> None:
    if not bad.any():
        return
    at = tuple(bad.nonzero()[0].tolist())
    raise Failure(
        VALUE,
        kind,
        f"{where}{list(at)}: expected {expected[at].item()!r}, got {actual[at].item()!r} "
        f"({int(bad.sum())} of {bad.numel()} differ, {dtype})",
    )


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides that matter: a dimension of size one, or an empty tensor, leaves them free."""
    if not tensor.numel():
        return ()
    return tuple(s for s, n in zip(tensor.stride(), tensor.size(), strict=True) if n > 1)


def check_meta(expected: torch.Tensor, actual: torch.Tensor, where: str) -> None:
    def same(kind: str, e: Any, a: Any) -> None:
        if e != a:
            raise Failure(META, kind, f"{where}: expected {e}, got {a}")

    same("type", type(expected).__name__, type(actual).__name__)
    same("dtype", expected.dtype, actual.dtype)
    same("device", expected.device, actual.device)
    same("layout", expected.layout, actual.layout)
    if expected.is_nested:
        return
    same("shape", tuple(expected.shape), tuple(actual.shape))
    if is_plain(expected) and _strides(expected) != _strides(actual):
        shape = tuple(expected.shape)
        raise Failure(
            META,
            "stride",
            f"{where}: expected {expected.stride()}, got {actual.stride()} for shape {shape}",
        )
    same("conj", expected.is_conj(), actual.is_conj())
    same("neg", expected.is_neg(), actual.is_neg())


def check_autograd_meta(expected: torch.Tensor, actual: torch.Tensor, where: str) -> None:
    for kind in ("requires_grad", "is_leaf"):
        e, a = getattr(expected, kind), getattr(actual, kind)
        if e != a:
            raise Failure(META, kind, f"{where}: expected {e}, got {a}")


def check_results(
    expected: Any,
    expected_inputs: list[torch.Tensor],
    actual: Any,
    actual_inputs: list[torch.Tensor],
    *,
    soft: set[str],
    signed_zeros: bool = False,
    values: bool = True,
    what: str = "output",
) -> None:
    """Outputs, and inputs as the call has left them. values: False compares all but numbers."""
    if structure(expected) != structure(actual):
        raise Failure(META, "structure", f"expected {structure(expected)}, got {structure(actual)}")
    _check_constants(expected, actual, what, values)
    outputs, others = tensors_of(expected), tensors_of(actual)
    _check_aliasing(outputs, expected_inputs, others, actual_inputs, what)
    for i, (e, a) in enumerate(zip(outputs, others, strict=True)):
        check_meta(e, a, f"{what} {i}")
        check_autograd_meta(e, a, f"{what} {i}")
        if values:
            check_values(e, a, f"{what} {i}", signed_zeros=signed_zeros, soft=soft)
    for i, (e, a) in enumerate(zip(expected_inputs, actual_inputs, strict=True)):
        _check_input(e, a, f"input {i} afterwards", values, soft)


def _check_constants(expected: Any, actual: Any, what: str, values: bool) -> None:
    pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True)
    for i, (e, a) in enumerate(pairs):
        if not isinstance(e, COMPARED_CONSTANTS) or not values:
            continue
        if isinstance(e, float) and math.isclose(e, a, rel_tol=1e-4, abs_tol=1e-4):
            continue
        if e != a and not (e != e and a != a):
            raise Failure(VALUE, "python_value", f"{what} {i}: expected {e!r}, got {a!r}")


def _check_aliasing(
    expected: list[torch.Tensor],
    expected_inputs: list[torch.Tensor],
    actual: list[torch.Tensor],
    actual_inputs: list[torch.Tensor],
    what: str,
) -> None:
    pairs = zip(
        alias_signature(expected, expected_inputs),
        alias_signature(actual, actual_inputs),
        strict=True,
    )
    for i, (e, a) in enumerate(pairs):
        if e != a:
            raise Failure(META, "alias", f"{what} {i}: eager {e}, compiled {a}")
        x, y = expected[i], actual[i]
        if e.startswith("input") and x.storage_offset() != y.storage_offset():
            offsets = f"offset {x.storage_offset()} expected, got {y.storage_offset()}"
            raise Failure(META, "alias", f"{what} {i}: {offsets}")
    e = identity_signature(expected, expected_inputs)
    a = identity_signature(actual, actual_inputs)
    if e != a:
        raise Failure(META, "identity", f"same objects as inputs: eager {e}, compiled {a}")


def _check_input(
    expected: torch.Tensor, actual: torch.Tensor, where: str, values: bool, soft: set[str]
) -> None:
    check_meta(expected, actual, where)
    check_autograd_meta(expected, actual, where)
    if is_plain(expected) and expected.numel() and expected._version and not actual._version:
        raise Failure(META, "version", f"{where}: the write does not count in its version")
    if values:
        try:
            check_values(expected, actual, where, soft=soft)
        except Failure as f:
            raise Failure(f.status, "input_" + f.kind, f.detail) from None


def check_gradients(
    expected: tuple,
    actual: tuple,
    *,
    soft: set[str],
    values: bool = True,
    names: list[str] | None = None,
) -> None:
    for i, (e, a) in enumerate(zip(expected, actual, strict=True)):
        where = f"gradient of {names[i] if names else i}"
        if (e is None) != (a is None):
            found = ["None" if g is None else "a tensor" for g in (e, a)]
            raise Failure(VALUE, "grad_none", f"{where}: eager {found[0]}, compiled {found[1]}")
        if e is None:
            continue
        try:
            check_meta(e, a, where)
            if values:
                check_values(e, a, where, soft=soft)
        except Failure as f:
            raise Failure(f.status, "grad_" + f.kind, f.detail) from None


def same_results(a: Any, b: Any) -> bool:
    """Whether eager repeats itself: only then can numbers be compared."""
    try:
        check_results(a[0], a[1], b[0], b[1], soft=set())
    except (Failure, ValueError):
        return False
    return True
