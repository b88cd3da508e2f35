"""examine.bisect and FULGURITE_FUSION_FUEL: which fusion is at fault."""

import subprocess
import sys

import pytest
import torch

import fulgurite
from fulgurite import examine
from tests.e2e.python_process import run_code

FUSED = {"executors": ["fused_cpu", "aten"]}


def two_fusions(x, w):
    h = torch.mm((x * 3 + 1).relu(), w)
    return (h * 5 - 2).relu() + h


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return torch.nn.functional.dropout((self.norm(x) * 3 + 1).relu(), 0.5)


def inputs():
    torch.manual_seed(0)
    return torch.randn(6, 4), torch.randn(4, 4)


def broken(compiled, number, old, new):
    fusion = examine.get_fusions(fulgurite.last_traces(compiled)[-1])[number][1]
    text = fusion.printed_cpu_code()
    assert old in text
    fusion.replace_cpu_code(text.replace(old, new))
    return fusion


@pytest.mark.parametrize("compile_first", [False, True])
def test_a_right_program_has_no_fault(compile_first):
    f = fulgurite.jit(two_fusions, **FUSED) if compile_first else two_fusions
    found = examine.bisect(f, *inputs())
    assert found.fusion is None and found.difference is None and not found.without_fusion
    assert found.compared == ("fusion0", "fusion1") and found.reproduce == ""
    assert repr(found) == (
        "no fusion differs, and the results are eager's (2 compared: fusion0, fusion1)"
    )


def test_the_fusion_with_the_broken_kernel_is_found(tmp_path):
    compiled, given = fulgurite.jit(two_fusions, **FUSED), inputs()
    with torch.no_grad():
        compiled(*given)
    broken(compiled, 1, "f32(5.f)", "f32(5.5f)")
    with torch.no_grad():
        found = examine.bisect(compiled, *given)
    assert found.fusion.name == "fusion1" and found.compared == ("fusion0", "fusion1")
    assert found.difference.output == 0 and found.difference.name == found.trace.outputs[0].name
    h = torch.mm((given[0] * 3 + 1).relu(), given[1])
    wanted = ((h * 5.5 - 2).relu() - (h * 5 - 2).relu()).abs().max().item()
    assert found.difference.largest == pytest.approx(wanted, rel=1e-4)
    text = repr(found)
    assert text.startswith("fusion1 (fused_cpu): (mul, sub, relu, add), with another C++ text")
    assert "largest difference" in text and "def fusion1" in text and ".reproduce" in text
    script = tmp_path / "repro.py"
    script.write_text(found.reproduce)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "Mismatched elements" in ran.stderr, ran.stderr
    # The same: nothing depends on chance.
    with torch.no_grad():
        assert repr(examine.bisect(compiled, *given)) == text


def test_the_first_of_several_is_found_and_tolerances_count():
    compiled, given = fulgurite.jit(two_fusions, **FUSED), inputs()
    compiled(*given)
    broken(compiled, 0, "f32(3.f)", "f32(3.01f)")
    broken(compiled, 1, "f32(5.f)", "f32(6.f)")
    assert examine.bisect(compiled, *given).fusion.name == "fusion0"
    found = examine.bisect(compiled, *given, atol=0.1)
    assert found.fusion.name == "fusion1" and ", atol=0.1)" in found.reproduce
    together = examine.bisect(compiled, *given, atol=1e3)
    assert together.fusion is None and together.difference is None


def test_a_difference_without_any_fusion_is_told():
    compiled, given = fulgurite.jit(two_fusions, **FUSED), inputs()
    compiled(*given)
    text = fulgurite.last_traces(compiled)[-1].text()
    fulgurite.replace_trace(compiled, text.replace(", 3)", ", 4)"))
    found = examine.bisect(compiled, *given)
    assert found.fusion is None and found.without_fusion and found.difference.largest > 0
    assert repr(found).startswith("the difference is there without any fusion (2 compared")


def test_errors_that_only_add_up_are_told():
    def long_way(x):
        for _ in range(4):
            x = torch.mm(x * 3 + 1, torch.eye(2))
        return x

    compiled, x = fulgurite.jit(long_way, **FUSED), torch.ones(2, 2)
    compiled(x)
    broken(compiled, 0, "f32(3.f)", "f32(3.001f)")
    found = examine.bisect(compiled, x, atol=0.1)
    assert found.fusion is None and found.difference is not None and not found.without_fusion
    assert "the results of all together do: output 0" in repr(found)


def test_inputs_state_and_random_numbers_are_as_they_were():
    module, x = Norm(), torch.randn(6, 4)
    running, given = module.norm.running_mean.clone(), x.clone()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        found = examine.bisect(module, x)
    assert found.difference is None and found.compared
    assert torch.equal(module.norm.running_mean, running) and torch.equal(x, given)
    assert torch.equal(torch.get_rng_state(), before)

    def in_place(x, y):
        x.mul_(3).add_(y)
        return x * 2

    found = examine.bisect(in_place, x, y=torch.ones(4))
    assert found.difference is None and found.compared and torch.equal(x, given)


def edited(function, *given):
    """Compiled, with another number in its program."""
    compiled = fulgurite.jit(function, **FUSED)
    compiled(*given)
    text = fulgurite.last_traces(compiled)[0].text()
    assert ", 3)" in text or "(3)" in text
    fulgurite.replace_trace(compiled, text.replace(", 3)", ", 4)").replace("(3)", "(4)"))
    return compiled


def test_tensors_that_were_written_to_are_results():
    def write(x):
        x.mul_(3).add_(1)

    x = torch.ones(4)
    assert examine.bisect(write, x).difference is None and x.tolist() == [1] * 4
    found = examine.bisect(edited(write, x.clone()), x)
    assert found.difference.output is None and found.difference.largest == 1
    assert "tensor 0 of the arguments: the largest difference is 1" in repr(found)
    module = Norm().train()
    compiled = fulgurite.jit(module, **FUSED)
    with torch.no_grad():
        compiled(x := torch.randn(6, 4))
        text = fulgurite.last_traces(compiled)[0].text()
        assert "True, 0.1, " in text
        fulgurite.replace_trace(compiled, text.replace("True, 0.1, ", "True, 0.2, "))
        found = examine.bisect(compiled, x)
    assert "norm.running_mean: the largest difference" in repr(found)


def test_numbers_are_results():
    def total(x):
        return {"sum": (x * 3).sum().item(), "text": "a"}, 7

    x = torch.ones(4)
    assert examine.bisect(total, x).difference is None
    found = examine.bisect(edited(total, x), x)
    assert "number 0 of the result: the largest difference is 4, 16.0 instead of 12.0" in repr(
        found
    )


def test_a_function_that_does_not_repeat_itself_is_told():
    generator, seen = torch.Generator(), []

    def draw(x):
        return x * 3 + torch.rand(4, generator=generator)

    def grow(x):
        seen.append(0)
        return [x * 3] * len(seen), tuple(x + i for i in range(len(seen)))

    class Counter(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return (x * 3 + self.calls).relu()

    for f in (draw, grow, Counter()):
        found = examine.bisect(f, torch.ones(4))
        assert found.fusion is None and found.difference and not found.is_repeatable
        assert "eager differs from one call to the next" in repr(found)


def test_a_tensor_of_another_shape_afterwards_is_as_it_was():
    def shrink(x):
        return x.resize_(2).mul_(3)

    x = torch.arange(4.0)
    assert examine.bisect(shrink, x).difference is None
    assert x.tolist() == [0, 1, 2, 3]


def test_a_fusion_of_a_function_within_is_found():
    inner = fulgurite.jit(lambda x: (x * 3 + 1).relu(), **FUSED)
    outer = fulgurite.jit(lambda x: inner(x[x > 0]), fallback="eager", **FUSED)
    x = torch.ones(4)
    inner(x)
    broken(inner, 0, "f32(3.f)", "f32(4.f)")
    found = examine.bisect(outer, x)
    assert found.fusion.name == "fusion0" and found.trace is fulgurite.last_traces(inner)[-1]


@pytest.mark.parametrize("given", ["a", -1, float("nan"), float("inf")])
def test_tolerances_are_numbers(given):
    with pytest.raises(fulgurite.UserError, match="rtol is a number, 0 or greater"):
        examine.bisect(two_fusions, *inputs(), rtol=given)
    with pytest.raises(fulgurite.UserError, match="atol is a number, 0 or greater"):
        examine.bisect(two_fusions, *inputs(), atol=given)


def test_a_difference_of_infinities_and_integers_has_a_size():
    compiled = fulgurite.jit(
        lambda x: ((x * 3 + 1).exp(), (x > 0).to(torch.int32) * 7 + 1), **FUSED
    )
    x = torch.ones(4)
    compiled(x)
    broken(compiled, 0, "f32(3.f)", "f32(3000.f)")
    assert examine.bisect(compiled, x).difference.largest == float("inf")


def test_the_difference_that_is_shown_is_none_that_is_allowed():
    def pair(x):
        return x * 3 + 1

    compiled, x = fulgurite.jit(pair, **FUSED), torch.tensor([1e6, 0.0, 2.0])
    compiled(x)
    broken(compiled, 0, "f32(1.f)", "f32(1.125f)")
    found = examine.bisect(compiled, x)
    assert found.difference.text.endswith("0.125 at [1], 1.125 instead of 1.0")


def test_what_has_no_data_is_not_compared():
    x = torch.ones(3, device="meta")
    found = examine.bisect(lambda x: x * 3 + 1, x)
    assert found.difference is None and found.compared == ()


def test_what_was_not_fused_is_said():
    found = examine.bisect(lambda x, y: torch.mm(x, y), torch.randn(4, 4), torch.randn(4, 4))
    assert found.fusion is None and found.compared == ()
    assert "none ran; compile_data(f)" in repr(found)


def test_what_the_program_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        examine.bisect(lambda x: x * (1 // 0), torch.ones(2))


FUEL = """
import torch, fulgurite
def program(x, w):
    h = torch.mm((x * 3 + 1).relu(), w)
    return (h * 5 - 2).relu() + h
for f in (program, lambda x, w: program(x, w) - 1):
    compiled = fulgurite.jit(f, executors=["fused_cpu", "aten"])
    x, w = torch.ones(2, 2), torch.ones(2, 2)
    assert torch.equal(compiled(x, w), f(x, w))
    fusions = fulgurite.examine.get_fusions(fulgurite.last_traces(compiled)[-1])
    reasons = {d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions}
    print([repr(fusion) for _, fusion in fusions], sorted(r for r in reasons if "FUEL" in r))
"""
FIRST, SECOND = "fusion0 (fused_cpu): (mul, add, relu)", "fusion1 (fused_cpu): (mul, sub, relu, add"
USED_UP = "FULGURITE_FUSION_FUEL={} is used up: this is region {} of the process"


@pytest.mark.parametrize("fuel", range(5))
def test_fuel_bounds_the_regions_of_a_process(fuel):
    ran = run_code(FUEL, FULGURITE_FUSION_FUEL=str(fuel))
    assert ran.returncode == 0, ran.stderr
    regions = [[FIRST, SECOND + ")"], [FIRST, SECOND + ", sub)"]]
    expected, number = [], 0
    for of_function in regions:
        formed, reasons = [], []
        for region in of_function:
            number += 1
            if number <= fuel:
                formed.append(region)
            else:
                reasons.append(USED_UP.format(fuel, number))
        expected.append(f"{formed} {reasons}")
    assert ran.stdout.splitlines() == expected


def test_fuel_that_is_no_number_is_the_users_error():
    for fuel in ("many", "-1", "1.5"):
        ran = run_code(FUEL, FULGURITE_FUSION_FUEL=fuel)
        assert ran.returncode == 1 and "expected a whole number of regions" in ran.stderr
    assert run_code(FUEL, FULGURITE_FUSION_FUEL="").stdout.count("fusion") == 4
