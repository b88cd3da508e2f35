"""Whole models, forward: with fused regions, call by call, and eager."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fulgurite
from bench.contenders import EAGER, FULGURITE, Contender
from bench.programs import MLP, caller, gpt2, llama
from bench.tables import milliseconds, ratio_cell, table
from bench.timing import interleave
from tests.conformance.models.workload import Workload

NOT_FUSED = "call by call"
_FEWEST_SECONDS = 3.0  # for each contender: a call takes milliseconds


class Block(nn.Module):
    """Causal self-attention and a perceptron of two layers, each with a norm and a residual."""

    def __init__(self, width: int = 384, heads: int = 6):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


def _residual_network() -> nn.Module:
    body = [Residual(64) for _ in range(4)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *body, *head)


def _workloads() -> dict[str, Callable[[], Workload]]:
    def of(module: nn.Module, *shape: int) -> Workload:
        return Workload(module.eval(), lambda: (torch.randn(shape),))

    return {
        "MLP": lambda: of(MLP(), 64, 256),
        "transformer block": lambda: of(Block(), 4, 128, 384),
        "residual network": lambda: of(_residual_network(), 4, 3, 32, 32),
        "Llama, 2 layers": lambda: llama(2),
        "GPT-2, 12 layers": lambda: gpt2(12),
        "GPT-2, 12 layers, full width": lambda: gpt2(12, width=768, length=128),
    }


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    call_by_call = Contender(NOT_FUSED, lambda f: fulgurite.jit(f, executors=["aten"]))
    compared = [*contenders, call_by_call]
    records: dict[str, Any] = {}
    rows = []
    for name, make in _workloads().items():
        torch.manual_seed(0)
        workload = make()
        inputs = workload.inputs()
        compiled = {c.name: c.compile(workload.module) for c in compared}
        calls = {who: caller(target, inputs) for who, target in compiled.items()}
        with torch.no_grad():
            _check(name, calls)
            timings = interleave(calls, max(seconds, _FEWEST_SECONDS))
        records[name] = {who: timing.record() for who, timing in timings.items()}
        regions = _regions(compiled[FULGURITE])
        records[name]["regions"] = regions
        cells = [ratio_cell(t) for who, t in timings.items() if who != EAGER]
        rows.append([name, milliseconds(timings[EAGER].best), *cells, str(len(regions))])
    head = ["forward, ratios to eager", "eager ms"]
    head += [c.name for c in compared if c.name != EAGER]
    return table([*head, "regions"], rows), records


def _check(name: str, calls: dict[str, Callable[[], Any]]) -> None:
    wanted = _tensor(calls[EAGER]())
    for who, call in calls.items():
        torch.testing.assert_close(
            _tensor(call()), wanted, rtol=1e-3, atol=1e-4, msg=f"{who}: {name} is wrong"
        )


def _tensor(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result.logits


def _regions(compiled: Any) -> list[str]:
    trace = fulgurite.last_traces(compiled)[-1]
    return [repr(fusion) for _, fusion in fulgurite.examine.get_fusions(trace)]
