"""What is cheap is computed again by each region that uses it, rather than written and read."""

import pytest
import torch

import fulgurite
from fulgurite import examine
from tests.e2e.python_process import run_code

SIZE = 512


def masked(mask, s, w):
    m = torch.where(mask, 0.0, -1e9)
    p = torch.softmax(s + m, -1)
    q = torch.softmax(p @ w + m, -1)
    return torch.softmax(q @ w + m, -1)


def scaled(x, s, w):
    m = (x * 2.0 + 1.0).relu()
    return torch.softmax(m, -1) @ w + m


def viewed(x, s, w):
    m = x * 2.0
    y = torch.softmax(m, -1) @ w
    return y.view(8, SIZE // 8, SIZE) + m.view(8, SIZE // 8, SIZE)


def masks():
    return torch.rand(SIZE, SIZE) > 0.5, torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)


def numbers():
    return tuple(torch.randn(SIZE, SIZE) for _ in range(3))


def compiled_as_eager(program, inputs):
    compiled = fulgurite.jit(program)
    kept = [x.clone() for x in inputs]
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs), program(*kept), rtol=1e-4, atol=1e-5)
    for x, before in zip(inputs, kept, strict=True):
        assert torch.equal(x, before)
    return compiled


def regions(compiled):
    """The operators of each region."""
    trace = fulgurite.last_traces(compiled)[-1]
    return [repr(fusion).split(": ")[1] for _, fusion in examine.get_fusions(trace)]


def decisions(compiled):
    found = fulgurite.compile_data(compiled).fusion_decisions
    return [d for d in found if "computed again" in d.call]


def test_a_mask_is_made_in_each_region_that_uses_it():
    torch.manual_seed(0)
    compiled = compiled_as_eager(masked, masks())
    assert regions(compiled) == ["(where, add, softmax)"] * 3
    taken = [d.call for d in decisions(compiled) if not d.refusal]
    assert len(taken) == 1
    assert "torch.where(" in taken[0] and "computed again with" in taken[0]


def test_a_chain_goes_along():
    torch.manual_seed(0)
    compiled = compiled_as_eager(scaled, numbers())
    assert regions(compiled) == ["(mul, add, relu, softmax)", "(mul, add, relu, add)"]


def test_a_view_goes_along():
    torch.manual_seed(0)
    compiled = compiled_as_eager(viewed, numbers())
    assert regions(compiled)[-1].startswith("(mul, view, ")


@pytest.mark.parametrize("program", [masked, scaled, viewed])
def test_the_printed_program_runs_by_itself(program):
    torch.manual_seed(0)
    inputs = masks() if program is masked else numbers()
    compiled = compiled_as_eager(program, inputs)
    scope = {}
    exec(fulgurite.last_traces(compiled)[-1].text(), scope)
    torch.testing.assert_close(scope["computation"](*inputs), program(*inputs))


def test_a_costly_function_is_computed_once():
    def program(x, s, w):
        m = torch.exp(x)
        return torch.softmax(m, -1) @ w + m * s

    compiled = compiled_as_eager(program, numbers())
    assert sum("exp" in region for region in regions(compiled)) == 1
    assert not any(d.call.split("computed again")[0].count("exp(") for d in decisions(compiled))


def test_random_numbers_are_drawn_once():
    def program(x, s, w):
        m = torch.nn.functional.dropout(x, 0.5) * 2.0
        return torch.softmax(m, -1) @ w + m * s

    inputs = numbers()
    compiled = fulgurite.jit(program)
    torch.manual_seed(3)
    result = compiled(*inputs)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    torch.testing.assert_close(result, program(*inputs), rtol=1e-4, atol=1e-5)
    assert torch.equal(state, torch.get_rng_state())
    assert sum("dropout" in region for region in regions(compiled)) == 1


def test_a_result_is_written_once():
    def program(x, s, w):
        m = x * 2.0
        return torch.softmax(m, -1) @ w + m, m

    torch.manual_seed(0)
    inputs = numbers()
    compiled = fulgurite.jit(program)
    for result, wanted in zip(compiled(*inputs), program(*inputs), strict=True):
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-5)
    assert all(d.refusal for d in decisions(compiled))


def test_a_large_tensor_is_not_kept_for_a_part_of_it():
    def program(x, w, s):
        large = x @ w
        m = large[:, : SIZE // 2] * 2.0
        y = torch.softmax(m, -1) @ s
        return y + m

    inputs = (torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE), torch.randn(SIZE // 2, SIZE // 2))
    compiled = compiled_as_eager(program, inputs)
    wanted = "what it is computed from would be kept in memory for longer"
    assert wanted in {d.refusal for d in decisions(compiled)}
    assert sum("mul" in region for region in regions(compiled)) == 1


def test_an_input_that_is_written_is_read_before():
    def program(x, s, w):
        m = x * 2.0
        y = torch.softmax(m, -1) @ w
        x.add_(1)
        return y + m * s

    torch.manual_seed(0)
    inputs = numbers()
    compiled = fulgurite.jit(program)
    ours, theirs = ([x.clone() for x in inputs] for _ in range(2))
    for _ in range(2):
        torch.testing.assert_close(compiled(*ours), program(*theirs), rtol=1e-4, atol=1e-5)
        assert torch.equal(ours[0], theirs[0])


FUEL = """
import torch, fulgurite
from tests.e2e.test_fusion_repeats import masked, masks
inputs = masks()
compiled = fulgurite.jit(masked)
torch.testing.assert_close(compiled(*inputs), masked(*inputs), rtol=1e-4, atol=1e-5)
print(len(fulgurite.examine.get_fusions(fulgurite.last_traces(compiled)[-1])))
"""


@pytest.mark.parametrize("fuel", range(4))
def test_calls_of_regions_that_are_not_formed_run_all_the_same(fuel):
    ran = run_code(FUEL, FULGURITE_FUSION_FUEL=str(fuel))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(fuel)


def test_it_is_the_same_each_time():
    torch.manual_seed(0)
    inputs = masks()
    texts = set()
    for _ in range(3):
        compiled = fulgurite.jit(masked)
        compiled(*inputs)
        texts.add(fulgurite.last_traces(compiled)[-1].text())
    assert len(texts) == 1
