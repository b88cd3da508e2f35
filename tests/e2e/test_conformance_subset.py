"""A fixed sample of conformance cases, in this process; `python -m tests.conformance` runs all."""

import functools

import pytest
import torch

from tests.conformance.calls import Settings
from tests.conformance.refusals import read_refusals, unlisted
from tests.conformance.report import causes, failures
from tests.conformance.seeds import stable_hash
from tests.conformance.suite import list_cases, run_case
from tests.conformance.target import load_target
from tests.conformance.verdict import PASS

# How many cases of each mode: those whose names have the smallest hashes.
OPERATORS = {
    "fwd": 40,
    "bwd": 25,
    "inplace": 15,
    "out": 15,
    "noncontig": 15,
    "special": 10,
    "respec": 10,
    "recall": 10,
    "error": 10,
}
MODULES = {"bwd": 4, "evalfwd": 4}
NAMED = [
    "optim.SGD|float32|step",
    "optim.RMSprop|float32|step",
    "model.llama|float32|train",
    "model.gpt2|float32|grad",
    "model.t5|float32|eval",
    "model.own_resnet|float32|train",
    "model.own_hand_lstm|float32|grad",
    "model.own_vae|float32|train",
]


@functools.cache
def cases_of(group):
    return sorted(list_cases((group,)), key=stable_hash)


def choose(group, mode, count):
    return [case for case in cases_of(group) if case.rsplit("|", 1)[1] == mode][:count]


def check(cases):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results = [run_case(load_target("fulgurite"), case, Settings()) for case in cases]
    finally:
        torch.set_num_threads(threads)
    unexpected = failures(results) + unlisted(read_refusals(), results)
    assert not unexpected, "\n" + causes(unexpected)
    assert any(result.status == PASS for result in results)


@pytest.mark.parametrize("mode", OPERATORS)
def test_operators(mode):
    check(choose("operators", mode, OPERATORS[mode]))


@pytest.mark.parametrize("mode", MODULES)
def test_modules(mode):
    check(choose("modules", mode, MODULES[mode]))


@pytest.mark.parametrize("case", NAMED)
def test_a_model_or_optimizer(case):
    check([case])
