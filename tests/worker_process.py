"""How processes that run cases for others end."""

import multiprocessing.process
import os
import signal


def end(process: multiprocessing.process.BaseProcess) -> None:
    """Of a process that leads a group: it, and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.join()


def ending(process: multiprocessing.process.BaseProcess) -> str:
    """How a process ended that gives no more answers."""
    process.join(10)
    code = process.exitcode
    if code is None:
        return "closed its pipe"
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
