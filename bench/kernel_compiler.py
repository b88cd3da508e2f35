"""What a kernel costs before it runs: compiled, found on disk; and what its threads cost."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contenders import Contender
from bench.tables import table
from fulgurite import _C

PROCESSES = 7
LATER_KERNELS = 12
REGIONS = 2000
TEXT = Path(__file__).with_name("gelu_kernel.cpp").read_text()

# Prints what each of several kernels took, as JSON: seconds of the clock, and the stages.
CHILD = f"""
import json, sys, time
import fulgurite
from fulgurite import _C
text, records = open(sys.argv[1]).read(), []
for i in range({LATER_KERNELS} + 1):
    variant = text.replace("1.5957691216f", f"1.59576912{{10 + i}}f")
    start = time.perf_counter()
    kernel = _C.compile_kernel(variant, "gelu_kernel")
    records.append([time.perf_counter() - start, kernel.from_disk, kernel.milliseconds])
print(json.dumps(records))
"""

NOTHING = 'extern "C" void nothing(void*, long) {}'


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    if reason := _C.missing_compiler():
        return f"no kernel compiler: {reason}", {"missing": reason}
    compiling = _compile_times()
    regions = _regions()
    rows = [
        [name, f"{1e3 * min(times):.3f}", f"{1e3 * statistics.median(times):.3f}"]
        for name, times in compiling.items()
    ]
    text = table(["a kernel, ms", "best", "median"], rows)
    rows = [[name, f"{r['best']:.2f}", f"{r['median']:.2f}"] for name, r in regions.items()]
    text += "\n\n" + table(["2 threads over 1, us", "best", "median"], rows)
    return text, {"compile": compiling, "regions": regions}


def _compile_times() -> dict[str, list[float]]:
    """Seconds, by what they are of."""
    times: dict[str, list[float]] = {}
    for _ in range(PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            for found, word in ((False, "compiled"), (True, "from disk")):
                first, *later = _in_new_process(folder)
                assert all(from_disk == found for _, from_disk, _ in (first, *later))
                times.setdefault(f"first of a process, {word}", []).append(first[0])
                times.setdefault(f"later ones, {word}", []).extend(s for s, _, _ in later)
                stages = ("front_end", "passes", "machine_code", "cache_write", "load")
                for stage in ("cache_read", "load") if found else stages:
                    name = f"  of which {stage.replace('_', ' ')}, {word}"
                    times.setdefault(name, []).extend(m[stage] / 1e3 for _, _, m in later)
                if not found:
                    times.setdefault("loading the plugin", []).append(first[2]["plugin_load"] / 1e3)
    return times


def _in_new_process(cache: str) -> list[tuple[float, bool, dict[str, float]]]:
    environment = {
        **os.environ,
        "FULGURITE_CACHE_DIR": cache,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", CHILD, str(Path(__file__).with_name("gelu_kernel.cpp"))]
    return json.loads(subprocess.check_output(command, env=environment))


def _regions() -> dict[str, dict[str, float]]:
    """Microseconds of a region of two empty chunks on two threads beyond the same on one."""
    kernel = _C.compile_kernel(NOTHING, "nothing")
    found = {}
    for pause in (0.0, 200e-6, 2e-3):
        one: list[float] = []
        two: list[float] = []
        for _ in range(min(REGIONS, int(2 / (pause + 1e-6)))):
            one.append(_timed(lambda: kernel.run_chunks(0, 2, 1), pause))
            two.append(_timed(lambda: kernel.run_chunks(0, 2, 2), pause))
        name = f"region, {1e6 * pause:.0f} us after the last" if pause else "region, back to back"
        found[name] = {
            "best": 1e6 * (min(two) - min(one)),
            "median": 1e6 * (statistics.median(two) - statistics.median(one)),
        }
    return found


def _timed(call: Callable[[], None], pause: float) -> float:
    """Seconds of the call, after a pause that keeps the core busy."""
    start = time.perf_counter()
    while time.perf_counter() - start < pause:
        pass
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
