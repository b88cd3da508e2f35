"""Scripts in the manner of Lightning Thunder's documents run, with its words replaced by ours."""

import contextlib
import io

import pytest
import torch

import fulgurite

# Thunder's words -> ours.
WORDS = {
    "thunder": "fulgurite",
    "cuda": "cpu",
    "nvFusion": "fusion",
    '"nvfuser", "torch"': '"fused_cpu", "aten"',
}

STEP_BY_STEP = """
import torch
import thunder
from thunder.examine import get_fusions, get_nvfuser_repro

def swish_sum(a, b):
    gated = a * torch.sigmoid(a)
    unused = gated / 2
    return gated + b, (gated + b).exp()

device = "cuda"
a = torch.linspace(-2, 2, 12, device=device).reshape(3, 4)
b = torch.full((3, 4), 0.5, device=device)

jswish = thunder.jit(swish_sum, executors=["nvfuser", "torch"], nv_store_fusion_inputs=True)
first, second = jswish(a, b)
torch.testing.assert_close((first, second), swish_sum(a, b))

traces = thunder.last_traces(jswish)
print("captured:", "torch.div" in str(traces[0]))
print("eliminated:", "torch.div" not in str(traces["Dead Code Elimination"]))
print("the last one:", traces[-1] is traces["Delete Last Used"])
print("by any case:", traces["transform for execution"].provenance)
print("backward:", len(thunder.last_backward_traces(jswish)))

context = traces[-1].python_ctx()
fusion = context["nvFusion0"]
print(fusion)
torch.testing.assert_close(fusion(a, b), (first, second))
print("definition:", "store" in str(fusion.last_used))
print([name for name, _ in get_fusions(traces[-1])])
scope = dict(context)
exec(str(traces[-1]), scope)
torch.testing.assert_close(scope["computation"](a, b), (first, second))

script = get_nvfuser_repro(traces[-1], "nvFusion0")
exec(compile(script, "repro", "exec"), {"__name__": "__main__"})
"""


def in_our_words(script):
    for word, ours in WORDS.items():
        script = script.replace(word, ours)
    return script


def run(script):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(in_our_words(script), "script", "exec"), {"__name__": "__main__"})
    return out.getvalue().splitlines()


def test_step_by_step():
    lines = run(STEP_BY_STEP)
    assert lines[:7] == [
        "captured: True",
        "eliminated: True",
        "the last one: True",
        "by any case: Transform for execution",
        "backward: 0",
        "fusion0 (fused_cpu): (sigmoid, mul, add, exp)",
        "definition: True",
    ]
    assert lines[7] == "['fusion0']"
    assert lines[-1].startswith("fused: ") and lines[-2].startswith("torch: ")


def test_a_repro_needs_the_option_and_a_call():
    x = torch.ones(3)
    both = r"store_fusion_inputs=True\), and call the compiled function"
    without = fulgurite.jit(lambda x: x * 2 + 1, executors=["fused_cpu", "aten"])
    without(x)
    with pytest.raises(fulgurite.UserError, match=both):
        fulgurite.examine.get_nvfuser_repro(fulgurite.last_traces(without)[-1], "fusion0")
    compiled = fulgurite.jit(
        lambda x: x * 2 + 1, executors=["fused_cpu", "aten"], nv_store_fusion_inputs=True
    )
    with pytest.raises(fulgurite.UserError, match="call the function first"):
        fulgurite.last_traces(compiled)
    compiled(x)
    # Its new regions have not run yet.
    text = fulgurite.last_traces(compiled)[-1].text()
    fulgurite.replace_trace(compiled, text.replace(", 2)", ", 3)"))
    trace = fulgurite.last_traces(compiled)[-1]
    with pytest.raises(fulgurite.UserError, match=both):
        fulgurite.examine.get_nvfuser_repro(trace, "fusion0")
    compiled(x)
    assert "def fusion0" in fulgurite.examine.get_nvfuser_repro(trace, "fusion0")
