"""Times of several contenders, taken in turns in one process."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

CHUNK_SECONDS = 2e-3  # of calls between two looks at the clock
MIN_ROUNDS = 7


@dataclass(frozen=True)
class Timing:
    """Processor seconds of one call. best: of all rounds. ratio: to the first contender's, the
    median over rounds; low, high: the quartiles of that."""

    best: float
    median: float
    ratio: float
    low: float
    high: float
    rounds: int

    def record(self) -> dict[str, Any]:
        return asdict(self)


def interleave(calls: dict[str, Callable[[], Any]], seconds: float = 1.0) -> dict[str, Timing]:
    """Each round calls every contender for a chunk of time, in turns: a slow moment of the machine
    then slows all of them."""
    for call in calls.values():
        for _ in range(3):
            call()
    counts = {name: _calls_in_a_chunk(call) for name, call in calls.items()}
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    end = time.perf_counter() + seconds * len(calls)
    gc.collect()
    gc.disable()
    try:
        while time.perf_counter() < end or len(rounds[names[0]]) < MIN_ROUNDS:
            for name in names:
                rounds[name].append(_chunk(calls[name], counts[name]))
            names.append(names.pop(0))
    finally:
        gc.enable()
    reference = rounds[next(iter(calls))]
    return {name: _summary(times, reference) for name, times in rounds.items()}


def _chunk(call: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def _calls_in_a_chunk(call: Callable[[], Any]) -> int:
    once = max(min(_chunk(call, 1) for _ in range(3)), 1e-7)
    return max(1, int(CHUNK_SECONDS / once))


def _summary(times: list[float], reference: list[float]) -> Timing:
    ratios = [t / r for t, r in zip(times, reference, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return Timing(min(times), statistics.median(times), ratio, low, high, len(times))


def once(call: Callable[[], Any]) -> float:
    """Wall seconds of one call: compilers may work in other processes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
