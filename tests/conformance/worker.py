"""Cases run in a process of their own: a crash or a hang is one failed case."""

import faulthandler
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from tests import worker_process
from tests.conformance.calls import Settings
from tests.conformance.suite import Result, run_case
from tests.conformance.target import Target
from tests.conformance.verdict import CRASH, HANG, describe

RECYCLE = 400  # cases; what leaks or breaks in one worker harms no more of them
WALL_PER_CPU = 8  # on a busy machine wall time says little


def _work(pipe: Connection, load: Callable[[], Target], settings: Settings, log_path: Path) -> None:
    """The life of a worker: it leads a process group, so that its children end with it."""
    os.setsid()
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(log)  # where a crash happened
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        target = load()
    except BaseException as error:
        pipe.send(describe(error, 2000))
        return
    pipe.send(None)
    while (case_id := pipe.recv()) is not None:
        os.write(log, f"--- {case_id}\n".encode())
        start = time.perf_counter()
        result = run_case(target, case_id, settings)
        pipe.send(replace(result, seconds=round(time.perf_counter() - start, 4)))


class Worker:
    """One process at a time, forked from this one: what is imported here needs no second import."""

    def __init__(
        self,
        load: Callable[[], Target],
        settings: Settings,
        log_path: Path,
        timeout: float = 120,
    ):
        """timeout: processor seconds for a case."""
        self._arguments = (load, settings, log_path)
        self._timeout = timeout
        self._process: Any = None
        self._pipe: Any = None
        self._cases = 0

    def run(self, case_id: str) -> Result:
        if self._process is not None and self._cases >= RECYCLE:
            self.stop()
        if self._process is None:
            self._start()
        self._cases += 1
        try:
            self._pipe.send(case_id)
            if not self._wait():
                self.stop()
                detail = f"no answer in {self._timeout:.0f} s of processor time"
                return Result(case_id, HANG, "timeout", detail, seconds=self._timeout)
            return self._pipe.recv()
        except (EOFError, OSError):
            return Result(case_id, CRASH, self._bury(), "the worker died")

    def stop(self) -> None:
        if self._process is None:
            return
        worker_process.end(self._process)
        self._pipe.close()
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, *self._arguments))
        self._process.start()
        other.close()
        self._cases = 0
        try:
            problem = self._pipe.recv()
        except EOFError:
            problem = self._bury()
        if problem is not None:
            self.stop()
            raise SystemExit(f"the target cannot be loaded: {problem}")

    def _bury(self) -> str:
        """How the process ended."""
        ending = worker_process.ending(self._process)
        self.stop()
        return ending

    def _wait(self) -> bool:
        """Whether there is an answer in time."""
        start, used = time.monotonic(), self._cpu_seconds()
        while not self._pipe.poll(0.5):
            if self._cpu_seconds() - used > self._timeout:
                return False
            if time.monotonic() - start > WALL_PER_CPU * self._timeout:
                return False
        return True

    def _cpu_seconds(self) -> float:
        """Of the worker and of its children that have ended."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        times = stat.rsplit(")", 1)[1].split()[11:15]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
