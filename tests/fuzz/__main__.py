"""The command line of the fuzzer."""

import argparse
import collections
import os
import sys
import threading
import time
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="random programs, fused against eager"
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has one of its own")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cpu", help="as FULGURITE_CPU: avx512, avx2")
    parser.add_argument(
        "--shrink", type=float, default=60, help="seconds for each failure; 0: none"
    )
    parser.add_argument("--out", type=Path, help="a folder for scripts of what failed")
    parser.add_argument("--least", type=int, default=0, help="names rules fused less often")
    parser.add_argument("--check", nargs="*", type=Path, help="scripts to check instead")
    return parser.parse_args()


options = arguments()
# Read once in a process, when the first kernel is compiled.
os.environ["FULGURITE_CACHE_DIR"] = "0"
os.environ["FULGURITE_JIT"] = "require"
if options.cpu:
    os.environ["FULGURITE_CPU"] = options.cpu

from tests.fuzz.check import Outcome, counted  # noqa: E402
from tests.fuzz.operators import with_rules  # noqa: E402
from tests.fuzz.programs import Program, read, script  # noqa: E402
from tests.fuzz.shrink import shrink  # noqa: E402
from tests.fuzz.worker import Worker  # noqa: E402

FINE = ("", "refused", "rejected")


class Run:
    """All workers, and what they found."""

    def __init__(self, tasks: list):
        self.tasks = iter(tasks)
        self.lock = threading.Lock()
        self.outcomes: list[Outcome] = []
        self.failures: list[tuple[Program, Outcome]] = []
        self.calls: collections.Counter = collections.Counter()

    def work(self) -> None:
        worker = Worker()
        try:
            while True:
                with self.lock:
                    task = next(self.tasks, None)
                if task is None:
                    return
                program, outcome = worker.run(task)
                with self.lock:
                    self.outcomes.append(outcome)
                    if program is not None:
                        self.calls.update(call.op for call in program.calls)
                if outcome.kind not in FINE:
                    self._report(worker, task, program, outcome)
        finally:
            worker.stop()

    def _report(self, worker: Worker, task, program: Program | None, outcome: Outcome) -> None:
        where = f"seed {task}" if isinstance(task, int) else program.note
        if program is None:
            print(f"{where}: {outcome.kind}: {outcome.detail}", flush=True)
            return
        if options.shrink:

            def fails(smaller: Program) -> bool:
                return worker.run(smaller)[1].kind == outcome.kind

            program = shrink(program, fails, options.shrink)
            outcome = worker.run(program)[1]
        text = script(program)
        with self.lock:
            self.failures.append((program, outcome))
            print(f"\n{where}: {outcome.kind}: {outcome.detail}\n{text}", flush=True)
            if options.out and isinstance(task, int):
                options.out.mkdir(parents=True, exist_ok=True)
                heading = f"# {outcome.kind}: {outcome.detail.partition(chr(10))[0]}\n"
                Path(options.out, f"{task}.txt").write_text(heading + text)


def report(run: Run) -> None:
    kinds = collections.Counter(o.kind or "as eager" for o in run.outcomes)
    done = max(1, len(run.outcomes))
    regions = [region for o in run.outcomes for region in o.regions]
    fused = sum(bool(o.regions) for o in run.outcomes)
    print(f"{len(run.outcomes)} programs: " + ", ".join(f"{n} {k}" for k, n in kinds.most_common()))
    print(f"fused: {fused / done:.1%} of the programs, {len(regions)} regions", end="")
    print(f" of {sum(map(len, regions)) / max(1, len(regions)):.1f} calls; ", end="")
    print(f"a second call of other sizes: {sum(o.other_sizes for o in run.outcomes) / done:.1%}")
    compared = max(1, sum(o.compared for o in run.outcomes))
    unsure = sum(o.unsure for o in run.outcomes)
    print(
        f"elements compared: {compared}, of which rounding may change anything: {unsure / compared:.2%}"
    )
    print(f"errors raised as by eager: {sum(o.raised for o in run.outcomes)}")
    refusals = collections.Counter(o.detail[:100] for o in run.outcomes if o.kind == "refused")
    for reason, times in refusals.most_common(5):
        print(f"  refused {times} times: {reason}")
    known = counted(run.outcomes)
    hits = {name: known.get(name, 0) for name in with_rules()}
    rare = {name: n for name, n in hits.items() if n < max(1, options.least)}
    print(
        f"rules: {len(hits)}, in a region {min(hits.values())} to {max(hits.values())} times",
        end="",
    )
    print(
        f"; fewer than {max(1, options.least)}: "
        + (
            ", ".join(f"{name} {n} (called {run.calls[name]})" for name, n in sorted(rare.items()))
            or "none"
        )
    )


def main() -> int:
    if options.check is not None:
        tasks = [read(path.read_text()) for path in options.check]
    else:
        tasks = list(range(options.seed, options.seed + options.programs))
    run = Run(tasks)
    start = time.monotonic()
    threads = [threading.Thread(target=run.work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(run)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
