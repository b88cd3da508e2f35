"""Token by token: a decoder at batch 1, with its keys and values in buffers of fixed size."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.contenders import EAGER, Contender
from bench.programs import caller
from bench.tables import milliseconds, ratio_cell, table
from bench.timing import interleave

LENGTH = 128  # tokens that there is room for


class Layer(nn.Module):
    """Causal self-attention and a perceptron, gated or not, each with a norm and a residual."""

    def __init__(self, width: int, heads: int, inner: int, gated: bool):
        super().__init__()
        self.heads, self.gated = heads, gated
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.gate = nn.Linear(width, inner) if gated else None
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, LENGTH, width // heads))

    def forward(self, x: Tensor, place: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(1, 1, -1))
        y = self.norm2(x)
        up = self.up(y)
        return x + self.down(F.silu(self.gate(y)) * up if self.gate else F.gelu(up))


class Decoder(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, inner: int, words: int, gated: bool):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads, inner, gated) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, token: Tensor, place: Tensor) -> Tensor:
        mask = (torch.arange(LENGTH) <= place).view(1, 1, 1, -1)
        x = self.embedding(token)
        for layer in self.layers:
            x = layer(x, place, mask)
        return self.head(self.norm(x))


DECODERS = {
    "12 layers of 768 (GPT-2)": (12, 768, 12, 3072, 50257, False),
    "4 layers of 2048, gated": (4, 2048, 32, 5632, 32000, True),
    "6 layers of 256, gated": (6, 256, 4, 688, 1024, True),
}


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    rows, records = [], {}
    for name, sizes in DECODERS.items():
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            module = Decoder(*sizes).eval().to(dtype)
            inputs = (torch.tensor([[3]]), torch.tensor([5]))
            calls = {c.name: caller(c.compile(module), inputs) for c in contenders}
            with torch.no_grad():
                _check(name, calls)
                timings = interleave(calls, max(seconds, 1.0))
            row = f"{name}, {str(dtype).removeprefix('torch.')}"
            records[row] = {who: timing.record() for who, timing in timings.items()}
            cells = [ratio_cell(t) for who, t in timings.items() if who != EAGER]
            rows.append([row, milliseconds(timings[EAGER].best), *cells])
    head = ["one token, ratios to eager", "eager ms"]
    return table([*head, *(c.name for c in contenders if c.name != EAGER)], rows), records


def _check(name: str, calls: dict[str, Callable[[], Any]]) -> None:
    wanted = calls[EAGER]().float()
    for who, call in calls.items():
        torch.testing.assert_close(
            call().float(), wanted, rtol=3e-2, atol=3e-2, msg=f"{who}: {name} is wrong"
        )
