"""Our meta rules give what the CPU kernels give: sizes, strides, dtype, aliasing, errors."""

import re

import pytest
import torch

from fulgurite import _C
from tests.unit.meta_check import Checker, infer_as_capture, infer_by_rule, ruled_overloads
from tests.unit.operator_samples import exercise


@pytest.fixture(scope="module")
def by_rule():
    checker = Checker(infer_by_rule, ruled_overloads())
    exercise(checker, at_most=1)
    return checker


def test_rules_agree_with_the_kernels(by_rule):
    assert by_rule.wrong == {}


def test_rules_are_exercised(by_rule):
    assert sum(by_rule.calls.values()) > 10_000
    assert len(by_rule.calls) > 180


def test_rules_raise_what_the_kernels_raise(by_rule):
    assert sum(by_rule.errors.values()) > 50
    # What is left needs data, or is about memory that overlaps or out= of another type.
    reasons = (
        "overflow", "positive-definite", "singular", "memory location", "scalar type",
        "tensor out", "probability tensor", "full rank",
    )  # fmt: skip
    rest = {k: v for k, v in by_rule.undetected.items() if not any(r in v for r in reasons)}
    assert rest == {}


def test_a_wrong_rule_is_found():
    def one_more_dimension(schema, metas):
        return [r.unsqueeze(0) for r in infer_by_rule(schema, metas)]

    checker = Checker(one_more_dimension, {"relu"})
    with checker:
        torch.relu(torch.randn(2, 3))
    assert set(checker.wrong) == {"relu"}


def test_every_record_with_a_rule_has_the_signature_of_its_operator():
    for name in _C.catalogue(with_rule=True):
        if "::" not in name:  # another library's need not be there
            base, _, overload = f"aten::{name}".partition(".")
            assert _C.has_rule(base, overload), name


def test_out_and_in_place_overloads_follow():
    for name in ("relu_", "mul_.Scalar", "where.self_out", "native_layer_norm.out"):
        base, _, overload = name.partition(".")
        assert _C.has_rule(f"aten::{base}", overload), name


@pytest.mark.parametrize("size", [(2, 3), (3,)])
def test_out_is_resized_as_the_kernel_resizes_it(size):
    checker = Checker(infer_by_rule, {"logical_and.out"})
    out = torch.empty(0, dtype=torch.bool)
    with checker:
        torch.logical_and(torch.ones(2, 3).t(), torch.ones(3, 2), out=out)
        torch.logical_and(torch.ones(size), torch.ones(2, 3)[..., : size[-1]], out=out)
    assert checker.calls["logical_and.out"] == 2
    assert checker.wrong == {}


def test_capture_infers_what_kernels_give():
    checker = Checker(infer_as_capture)
    names = re.compile("^linalg|^nn.functional.[abcegl]|^s")
    exercise(checker, at_most=1, dtypes=(torch.float32,), names=names)
    assert len(checker.calls) > 200
    assert checker.wrong == {}
