"""The programs that are timed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conformance.models.workload import Inputs, Workload

TINY = 4  # elements of a tensor where nothing but overhead is to be seen


@dataclass(frozen=True)
class Program:
    """target: what is compiled. args: what it is called with."""

    name: str
    target: Any
    args: tuple[Tensor, ...]

    def leaves(self) -> list[Tensor]:
        parameters = self.target.parameters() if isinstance(self.target, nn.Module) else ()
        return [*self.args, *parameters]


def _one(a: Tensor) -> Tensor:
    return a + 1.0


def _ten(a: Tensor) -> Tensor:
    for _ in range(5):
        a = torch.sin(a) * 0.5
    return a


def _twelve(a, b, c, d, e, f, g, h, i, j, k, m) -> Tensor:
    return a + b + c + d + e + f + g + h + i + j + k + m


class Products(nn.Module):
    def __init__(self, count: int):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.rand(TINY)) for _ in range(count)])

    def forward(self, x: Tensor) -> Tensor:
        for w in self.w:
            x = x * w
        return x


def overhead_programs(training: bool) -> list[Program]:
    def inputs(count: int) -> tuple[Tensor, ...]:
        return tuple(torch.rand(TINY, requires_grad=training) for _ in range(count))

    linears = nn.Sequential(*[nn.Linear(TINY, TINY) for _ in range(10)])
    return [
        Program("1 op", _one, inputs(1)),
        Program("10 ops", _ten, inputs(1)),
        Program("12 args", _twelve, inputs(12)),
        Program("20 params", Products(20), inputs(1)),
        Program("10 linears", linears, inputs(1)),
    ]


def small_function() -> Program:
    def gelu_of_sum(a: Tensor, b: Tensor) -> Tensor:
        x = a + b
        return x * (torch.tanh(x * x * 0.0447) + 1.0)

    return Program("small function", gelu_of_sum, (torch.randn(1024), torch.randn(1024)))


class MLP(nn.Module):
    def __init__(self, width: int = 256, inner: int = 1024):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


def language_model(model: nn.Module, vocabulary: int, shape: tuple[int, int]) -> Workload:
    def inputs() -> Inputs:
        return {"input_ids": torch.randint(0, vocabulary, shape), "use_cache": False}

    return Workload(model.eval(), inputs)


def llama(layers: int = 2) -> Workload:
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415  an optional package

    configuration = LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    return language_model(LlamaForCausalLM(configuration), 1024, (2, 64))


def gpt2(layers: int = 12, width: int = 96, length: int = 32) -> Workload:
    """As deep as the smallest of OpenAI's, but narrow: tracing and guards know no widths."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415  an optional package

    configuration = GPT2Config(
        vocab_size=1024,
        n_positions=128,
        n_embd=width,
        n_layer=layers,
        bos_token_id=1,
        eos_token_id=2,
    )
    return language_model(GPT2LMHeadModel(configuration), 1024, (1, length))


def caller(compiled: Callable, inputs: Inputs) -> Callable[[], Any]:
    if isinstance(inputs, dict):
        return lambda: compiled(**inputs)
    return lambda: compiled(*inputs)
