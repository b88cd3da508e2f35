"""Measures fulgurite against eager and prints tables; bench/README.md explains the numbers."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

import fulgurite
from bench import (
    compile_times,
    decoding,
    guards,
    kernel_compiler,
    memory,
    models,
    overhead,
    tracing,
)
from bench.contenders import contenders

BENCHES = {
    "overhead": overhead.run,
    "guards": guards.run,
    "compile_times": compile_times.run,
    "kernel_compiler": kernel_compiler.run,
    "tracing": tracing.run,
    "models": models.run,
    "decoding": decoding.run,
    "memory": memory.run,
}


def _machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": str(torch.__version__),
        "fulgurite": fulgurite.__version__,
        "python": sys.version.split()[0],
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--only", default=",".join(BENCHES), help=f"of {', '.join(BENCHES)}; comma-separated")
    add("--inductor", action="store_true", help="torch.compile too; needs a C++ compiler")
    add("--seconds", type=float, default=0.5, help="for each timed call of each contender")
    add("--out", type=Path, default=Path("results/bench.json"), help="where the numbers go")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(BENCHES):
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    results: dict[str, object] = {"machine": _machine()}
    print(", ".join(f"{k} {v}" for k, v in _machine().items()), "one thread", sep=", ")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        text, results[name] = BENCHES[name](contenders(options.inductor), options.seconds)
        print(f"\n{text}", flush=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
