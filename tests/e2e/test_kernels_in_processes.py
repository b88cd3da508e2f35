"""Compiled kernels and the pool of threads in a Python process: forks, workers, threads, other libraries."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

import fulgurite
from fulgurite import _C

pytestmark = pytest.mark.skipif(
    bool(_C.missing_compiler()), reason=f"no kernel compiler: {_C.missing_compiler()}"
)

# Each chunk writes a thousand floats.
FILL = """
extern "C" void fill(void* context, long chunk) {
  for (long i = 0; i < 1000; ++i) ((float*)context)[1000 * chunk + i] = chunk + SUMMAND;
}
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """For child processes that start anew; this process has read its environment."""
    monkeypatch.setenv("FULGURITE_CACHE_DIR", str(tmp_path / "cache"))


def fills(summand: int, threads: int = 2, chunks: int = 16) -> bool:
    kernel = _C.compile_kernel(FILL.replace("SUMMAND", str(summand)), "fill")
    out = torch.empty(chunks, 1000)
    kernel.run_chunks(out.data_ptr(), chunks, threads)
    return torch.equal(out, (torch.arange(chunks) + summand).float()[:, None].expand(-1, 1000))


def in_child(body) -> bool:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if body() else 1)
        except BaseException:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_kernel_runs_and_describes_itself():
    kernel = _C.compile_kernel('extern "C" int twice(int x) { return x + x; }', "twice")
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(kernel.address)(21) == 42
    assert kernel.symbol == "twice" and kernel.object_bytes > 0
    assert kernel.target == ("avx2" if os.environ.get("FULGURITE_CPU") == "avx2" else "host")
    assert set(kernel.milliseconds) >= {"front_end", "passes", "machine_code", "load"}
    assert "twice:" in kernel.assembly()


def test_errors_are_ours():
    with pytest.raises(
        fulgurite.InternalError, match=r"expected expression(.|\n)*>     1 \| int x = ;"
    ):
        _C.compile_kernel("int x = ;", "x")
    with pytest.raises(fulgurite.InternalError, match="calls system"):
        _C.compile_kernel(
            'extern "C" int system(char*); extern "C" int f() { return system(0); }', "f"
        )
    with pytest.raises(fulgurite.UserError, match="host, avx512, avx2 or sse4"):
        _C.compile_kernel("", "f", target="mmx")
    # Errors of torch are still torch's with a second C++ runtime in the process.
    with pytest.raises(RuntimeError, match="tensor size"):
        torch.ones(3) @ torch.ones(4)


def test_fork_before_and_after_the_plugin_is_loaded():
    code = """
import os, sys, pathlib
sys.path[:0] = {path!r}
from test_kernels_in_processes import fills, in_child
plugin = lambda: "libfulgurite_clang" in pathlib.Path("/proc/self/maps").read_text()
assert not plugin() and in_child(lambda: fills(1)) and not plugin()
assert fills(2) and plugin()
assert in_child(lambda: fills(2) and fills(3))
""".format(path=[os.path.dirname(__file__)])
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_fork_while_other_threads_compile():
    stop, wrong = threading.Event(), []

    def compile_on(first):
        while not stop.is_set():
            first += 1
            if not fills(first):
                wrong.append(first)

    threads = [threading.Thread(target=compile_on, args=(10_000 * t,)) for t in (1, 2)]
    for thread in threads:
        thread.start()
    failed = sum(not in_child(lambda: fills(99_999)) for _ in range(8))
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == 0 and not wrong


class Filled(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        assert fills(500 + i % 3)
        # A worker of torch has one thread, and the pool follows.
        assert torch.get_num_threads() == 1
        return torch.tensor(float(i))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader(start):
    assert fills(500)
    loader = torch.utils.data.DataLoader(
        Filled(), batch_size=4, num_workers=2, multiprocessing_context=start
    )
    assert torch.equal(torch.cat(list(loader)), torch.arange(24.0))


def test_threads_are_as_many_as_asked_for():
    code = """
import sys
sys.path[:0] = {path!r}
from test_kernels_in_processes import fills
from fulgurite import _C
assert fills(1, threads=1) and _C.pool_threads() == 0
assert fills(1, threads=2) and _C.pool_threads() == 1
assert fills(1, threads=4) and _C.pool_threads() == 3
assert fills(1, threads=2) and _C.pool_threads() == 3
""".format(path=[os.path.dirname(__file__)])
    done = python(code)
    assert done.returncode == 0, done.stderr


COMPILE = """
import pathlib, warnings
from fulgurite import _C
kernel = _C.compile_kernel('extern "C" int f() { return 1; }', "f")
plugin = "libfulgurite_clang" in pathlib.Path("/proc/self/maps").read_text()
print(kernel and kernel.from_disk, plugin, _C.missing_compiler() or None, bool(_C.missing_compiler_warning()))
"""


def test_a_kernel_on_disk_needs_no_compiler():
    assert python(COMPILE).stdout == "False True None False\n"
    assert python(COMPILE).stdout == "True False None False\n"
    assert python(COMPILE, FULGURITE_CPU="sse4").stdout == "False True None False\n"
    assert python(COMPILE, FULGURITE_CACHE_DIR="0").stdout == "False True None False\n"


def test_without_the_plugin():
    absent = {"FULGURITE_CLANG_PLUGIN": "/nowhere/plugin.so"}
    reason = "/nowhere/plugin.so: No such file or directory"
    assert python(COMPILE, **absent).stdout == f"None False {reason} True\n"
    off = python(COMPILE, FULGURITE_JIT="off", **absent)
    assert off.stdout == "None False FULGURITE_JIT=off False\n"
    required = python(COMPILE, FULGURITE_JIT="require", **absent)
    assert required.returncode == 1
    assert "UserError: FULGURITE_JIT=require, but there is no kernel compiler" in required.stderr
    assert reason in required.stderr


def test_cpu_is_checked():
    done = python(COMPILE, FULGURITE_CPU="mmx")
    assert "FULGURITE_CPU may be host, avx512, avx2 or sse4" in done.stderr


def test_processors_without_avx2_run_the_calls_one_by_one():
    code = """
import torch, fulgurite
f = lambda x: torch.tanh(x * 2).sum(0)
compiled, x = fulgurite.jit(f), torch.ones(64, 64)
print(torch.equal(compiled(x), f(x)))
print({d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions})
"""
    done = python(code, FULGURITE_CPU="sse4")
    assert done.stdout.startswith("True\n"), done.stderr
    assert "written for AVX2 and FMA, which sse4 lacks" in done.stdout
