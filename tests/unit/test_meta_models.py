"""No model of the conformance suite is traced by meta kernels that are written in Python: they cost
a hundred times what ours do."""

import sys

import pytest
import torch

from fulgurite import _C, _tracing
from tests.conformance.models import MODELS
from tests.conformance.models.run import MODES, loss_of

# Where torch keeps meta kernels and decompositions in Python.
PYTHON_KERNELS = ("/torch/_meta_registrations.py", "/torch/_refs/", "/torch/_decomp/")


def gradients(module, result):
    if hasattr(result, "items"):
        result = {k: v for k, v in result.items() if v is not None}
    parameters = [p for p in module.parameters() if p.requires_grad]
    return torch.autograd.grad(loss_of(result), parameters, allow_unused=True)


def run(program):
    """(meta kernels written in Python that the capture called, frames of such that ran)"""
    tracer, frames = _C.Tracer(), set()

    def watch(frame, event, argument):
        code = frame.f_code
        if event == "call" and any(path in code.co_filename for path in PYTHON_KERNELS):
            frames.add(code.co_name)

    def traced(value):
        return tracer.input(value) if isinstance(value, torch.Tensor) else value

    before = dict(_C.python_meta_calls())
    with _tracing.listening(tracer):
        sys.setprofile(watch)
        try:
            program(traced)
        finally:
            sys.setprofile(None)
    calls = {op: n - before.get(op, 0) for op, n in _C.python_meta_calls().items()}
    return {op for op, n in calls.items() if n}, frames


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_traced_without_python_kernels(name, mode):
    torch.manual_seed(0)
    workload = MODELS[name]()
    module, inputs = workload.module.train(mode == "train"), workload.inputs()

    def program(traced):
        if isinstance(inputs, dict):
            result = module(**{key: traced(value) for key, value in inputs.items()})
        else:
            result = module(*map(traced, inputs))
        if mode != "eval":
            gradients(module, result)

    with torch.set_grad_enabled(mode != "eval"):
        assert run(program) == (set(), set())


def test_a_python_kernel_is_noticed():
    library = torch.library.Library("fulgurite_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("twice", torch.empty_like, "Meta")
    x = torch.ones(2)
    calls, _ = run(lambda traced: torch.ops.fulgurite_tests.twice(traced(x)))
    assert calls == {"fulgurite_tests::twice"}
