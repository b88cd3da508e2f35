"""Fusion: what of a program runs as one kernel, its C++ text, and what can be done with it.

(a) the trace, and the machine code's C++ text; (b) a script that repeats the fusion by itself, run;
(c) its speed beside eager's, and beside a copy of as many bytes; (d) the text edited, and the edit
found by examine.bisect.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import fulgurite
from fulgurite import examine

EPSILON = 1e-6


def gated_norm(x, gate, scale):
    gated = x * torch.sigmoid(gate) + x
    size = torch.rsqrt(gated.pow(2).mean(-1, keepdim=True) + EPSILON)
    return gated * size * scale


def show(title, text):
    print(f"\n{'-' * 8} {title}\n{text}")


def without_prelude(text):
    """The loops; before them are vector types and elementary functions."""
    return text[max(text.find("static void"), 0) :]


def alternating_medians(functions, inputs, rounds=31):
    """Seconds of a call of each: what disturbs one disturbs the others, too."""
    taken = [[] for _ in functions]
    for _ in range(rounds):
        for function, times in zip(functions, taken, strict=True):
            start = time.perf_counter()
            function(*inputs)
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


def run_script(text):
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "repro.py")
        script.write_text(text, encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=300, check=True
        )
    return ran.stdout


def main():
    torch.manual_seed(0)
    inputs = torch.randn(2048, 1024), torch.randn(2048, 1024), torch.randn(1024)
    fused = fulgurite.jit(gated_norm, executors=["fused_cpu", "aten"], store_fusion_inputs=True)
    result = fused(*inputs)
    trace = fulgurite.last_traces(fused)[-1]
    show("(a) the trace that runs", trace)
    fusions = examine.get_fusions(trace)
    if not fusions:
        print("nothing is fused:", fulgurite.compile_data(fused).fusion_decisions[0].refusal)
        return
    name, fusion = fusions[0]
    show(f"(a) {fusion}, its C++ text", without_prelude(fusion.last_used.last_cpu_code()))
    print("close to eager:", torch.allclose(result, gated_norm(*inputs), atol=1e-5))

    printed = run_script(examine.get_fusion_repro(trace, name))
    show("(b) the script of get_fusion_repro ran by itself and ended with", "")
    print("\n".join(printed.splitlines()[-2:]))

    eager_seconds, fused_seconds = alternating_medians([gated_norm, fused], inputs)
    show("(c) speed, new results included", f"{torch.get_num_threads()} thread(s), 2048 x 1024")
    print(f"eager {1e3 * eager_seconds:.2f} ms, fused {1e3 * fused_seconds:.2f} ms: ", end="")
    print(f"{eager_seconds / fused_seconds:.1f} times as fast")
    print("the kernel alone:", fusion.last_used.throughput())

    text = fusion.last_used.last_cpu_code()
    fusion.replace_cpu_code(text.replace("f32(1e-06f)", "f32(0.1f)"))
    show("(d) with an edited text", examine.bisect(fused, *inputs))
    fusion.restore_cpu_code()
    show("(d) with its own text again", examine.bisect(fused, *inputs))


if __name__ == "__main__":
    main()
