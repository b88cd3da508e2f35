"""Scripts of examine.get_fusion_repro run by themselves, whatever the inputs are."""

import subprocess
import sys

import pytest
import torch

import fulgurite
from fulgurite import examine

FUSED = {"executors": ["fused_cpu", "aten"], "store_fusion_inputs": True}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def affine(x):
    return (x * 3 + x).abs()


def pair(x, y):
    return (x + y) * x - y


def logical(x, y):
    return (x & y) | (x ^ y) | ~x


def overlapping():
    return torch.randn(20).as_strided((5, 4), (2, 3))


LAYOUTS = {
    "transposed": lambda: (torch.randn(5, 4).t(), torch.randn(4, 5)),
    "sliced": lambda: (torch.randn(8, 9)[1::2, ::3], torch.randn(4, 3)),
    "expanded": lambda: (torch.randn(4, 1).expand(4, 6), torch.randn(6).expand(4, 6)),
    "overlapping": lambda: (overlapping(), overlapping()),
    "scalar": lambda: (torch.tensor(2.5), torch.tensor(-1.0)),
    "scalar_and_matrix": lambda: (torch.tensor(2.5), torch.randn(3, 4)),
    "empty": lambda: (torch.empty(0, 4), torch.empty(0, 4)),
    "channels_last": lambda: [
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last) for _ in range(2)
    ],
    "one_element": lambda: (torch.randn(1, 1, 1), torch.randn(3, 1, 2)),
    "infinite": lambda: (torch.full((3,), float("inf")), torch.tensor([1.0, float("nan"), -2.0])),
}


def compiled_with_repro(program, inputs, values):
    compiled = fulgurite.jit(program, **FUSED)
    with torch.no_grad():
        compiled(*inputs)
    trace = fulgurite.last_traces(compiled)[-1]
    fusion = examine.get_fusions(trace)[0][1]
    return fusion, examine.get_fusion_repro(trace, fusion.name, values=values)


def inputs_of(script):
    """Those that the script makes, without running the rest of it."""
    scope = {"__name__": "script"}
    exec(compile(script, "script", "exec"), scope)
    return scope["make_inputs"]()


def in_one_process(scripts, tmp_path):
    """Each script as if it were run by itself, in a process that knows nothing of this one."""
    names = []
    for number, script in enumerate(scripts):
        names.append(tmp_path / f"repro{number}.py")
        names[-1].write_text(script.replace("budget=0.5", "budget=0.001"))
    runner = "import runpy, sys\nfor p in sys.argv[1:]: runpy.run_path(p, run_name='__main__')"
    ran = subprocess.run(
        [sys.executable, "-c", runner, *map(str, names)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("fused: ") == len(scripts)
    assert ran.stdout.count("def fusion0") == len(scripts), "fused in the script, too"


def made_as_given(script, wanted, values):
    made = inputs_of(script)
    for got, given in zip(made, wanted, strict=True):
        assert got.dtype == given.dtype and got.shape == given.shape
        assert got.stride() == given.stride()
        if values:
            torch.testing.assert_close(got, given, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("values", [False, True])
def test_dtypes(values, tmp_path):
    scripts = []
    for dtype in [*FLOATS, *INTEGERS]:
        x = (torch.randn(5, 7) * 4).to(dtype)
        fusion, script = compiled_with_repro(affine, [x], values)
        made_as_given(script, fusion.last_inputs, values)
        scripts.append(script)
    masks = [torch.rand(5, 7) > 0.5, torch.rand(5, 7) > 0.5]
    fusion, script = compiled_with_repro(logical, masks, values)
    made_as_given(script, masks, values)
    in_one_process([*scripts, script], tmp_path)


@pytest.mark.parametrize("values", [False, True])
def test_layouts(values, tmp_path):
    scripts = []
    for make in LAYOUTS.values():
        given = make()
        fusion, script = compiled_with_repro(pair, given, values)
        for kept in fusion.last_inputs:  # a region may take them in another order
            assert any(
                kept.stride() == t.stride()
                and torch.testing.assert_close(kept, t, equal_nan=True) is None
                for t in given
                if t.shape == kept.shape and torch.equal(t.nan_to_num(), kept.nan_to_num())
            )
        made_as_given(script, fusion.last_inputs, values)
        scripts.append(script)
    in_one_process(scripts, tmp_path)


def test_integers_have_the_range_that_they_had(tmp_path):
    low, high = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    scripts = []
    for values in ([low, high], [7, 7], [-3, 12]):
        x = torch.tensor(values).repeat(20)
        _, script = compiled_with_repro(affine, [x], False)
        (made,) = inputs_of(script)
        assert made.min() >= min(values) and made.max() <= max(values)
        scripts.append(script)
    in_one_process(scripts, tmp_path)


def test_floats_have_the_range_that_they_had():
    x = torch.rand(100) + 4
    _, script = compiled_with_repro(lambda x: (x * 2).log() + 1, [x], False)
    (made,) = inputs_of(script)
    assert 4 <= made.min() and made.max() <= 5


def test_an_edited_text_is_part_of_the_script(tmp_path):
    compiled = fulgurite.jit(affine, **FUSED)
    x = torch.randn(5, 7)
    compiled(x)
    trace = fulgurite.last_traces(compiled)[-1]
    fusion = examine.get_fusions(trace)[0][1]
    text = fusion.printed_cpu_code()
    fusion.replace_cpu_code("// the same\n" + text)
    script = examine.get_fusion_repro(trace, "fusion0")
    assert "the same" in script
    in_one_process([script], tmp_path)
    fusion.replace_cpu_code(text.replace("f32(3.f)", "f32(4.f)"))
    path = tmp_path / "broken.py"
    path.write_text(examine.get_fusion_repro(trace, "fusion0", values=True))
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and "Mismatched elements: 35 / 35" in ran.stderr, ran.stderr


def test_an_operator_that_torch_has_not_looked_up_yet(tmp_path):
    x = torch.tensor([True, False])
    _, text = compiled_with_repro(lambda x: ~(x & x) | x, (x,), True)
    assert "torch.ops.aten.__or__.Tensor" in text
    script = tmp_path / "repro.py"
    script.write_text(text)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_random_numbers_and_those_that_the_program_computes(tmp_path):
    def draws(x):
        return torch.dropout(x, 0.5, True) * 2 + torch.rand_like(x)

    def divides(x, n):
        count = n.item()
        return x / count + x * (1 - 0.9**count)

    scripts = []
    for function, given in (
        (draws, [torch.randn(500)]),
        (divides, [torch.ones(9), torch.ones(()) * 3]),
    ):
        _, script = compiled_with_repro(function, given, True)
        scripts.append(script)
    in_one_process(scripts, tmp_path)
