"""Programs checked in processes of their own: a crash or a hang is one failed program."""

import faulthandler
import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tests import worker_process
from tests.fuzz.check import Outcome, check
from tests.fuzz.generate import generate
from tests.fuzz.programs import Program

RECYCLE = 400  # programs; kernels are kept for as long as a process lives


def _work(pipe: Any, log: str, check: Callable[[Program], Outcome]) -> None:
    os.setsid()
    faulthandler.disable()
    with open(log, "w") as file:
        os.dup2(file.fileno(), 2)  # torch warns in C++ too
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    while (task := pipe.recv()) is not None:
        program = generate(task) if isinstance(task, int) else task
        pipe.send(program)
        pipe.send(check(program))


class Worker:
    """One process at a time, not forked: what OpenMP made before a fork hangs after it."""

    def __init__(self, timeout: float = 120, check: Callable[[Program], Outcome] = check):
        """timeout: seconds for a program. check: what is done with each, a function of a module."""
        self._check = check
        self._timeout = timeout
        self._process: Any = None
        self._pipe: Any = None
        self._done = 0

    def run(self, task: int | Program) -> tuple[Program | None, Outcome]:
        """Of a seed, or of a program."""
        if self._process is not None and self._done >= RECYCLE:
            self.stop()
        if self._process is None:
            self._start()
        self._done += 1
        program = task if isinstance(task, Program) else None
        try:
            self._pipe.send(task)
            for part in ("program", "outcome"):
                if not self._pipe.poll(self._timeout):
                    self.stop()
                    return program, Outcome("hang", f"no answer in {self._timeout:.0f} s")
                received = self._pipe.recv()
                program = received if part == "program" else program
            return program, received
        except (EOFError, OSError):
            return program, Outcome("crash", self._bury())

    def stop(self) -> None:
        if self._process is None:
            return
        worker_process.end(self._process)
        self._pipe.close()
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._log = tempfile.NamedTemporaryFile()
        self._process = context.Process(target=_work, args=(other, self._log.name, self._check))
        self._process.start()
        other.close()
        self._done = 0

    def _bury(self) -> str:
        """How the process ended, and what it said last."""
        ending = worker_process.ending(self._process)
        self.stop()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"{ending}: {lines[-1]}" if lines else ending
