"""Attention run by a kernel of one's own: an executor claims it, everything else is as before.

The kernel never has the whole matrix of scores: it goes over the keys in blocks, and keeps a
running maximum and sum of each row (Milakov and Gimelshein, 2018).
"""

import math

import torch

import fulgurite

BLOCK = 64


def blockwise_attention(q, k, v, mask, dropout, is_causal, *, scale, enable_gqa):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    rows = torch.arange(q.shape[-2])[:, None]
    largest = q.new_full((*q.shape[:-1], 1), -math.inf)
    total, result = torch.zeros_like(largest), torch.zeros_like(q)
    for start in range(0, k.shape[-2], BLOCK):
        keys, values = (t[..., start : start + BLOCK, :] for t in (k, v))
        scores = (q * scale) @ keys.mT
        if is_causal:
            columns = torch.arange(start, start + keys.shape[-2])
            scores = scores.masked_fill(columns > rows, -math.inf)
        now = torch.maximum(largest, scores.amax(-1, keepdim=True))
        weights, shrink = (scores - now).exp(), (largest - now).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        result, largest = result * shrink + weights @ values, now
    return result / total


def is_plain(call):
    given = call.arguments
    if given["attn_mask"] is not None or given["dropout_p"]:
        return "it has a mask or dropout"
    if given["enable_gqa"] or given["query"].shape[-1] != given["value"].shape[-1]:
        return "its heads differ"
    return len(given["query"].shape) == 4 or "it has no four dimensions"


executor = fulgurite.OperatorExecutor("blockwise", gradient="recompute")
executor.register_implementation(
    "aten::scaled_dot_product_attention", blockwise_attention, checker=is_plain
)
fulgurite.register_executor(executor)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def main():
    torch.manual_seed(0)
    module, x = Attention(64, 4), torch.randn(2, 150, 64)
    compiled = fulgurite.jit(module, executors=["blockwise", "fused_cpu", "aten"])
    with torch.no_grad():
        same = torch.allclose(compiled(x), module(x), atol=1e-5)
    for call in fulgurite.last_traces(compiled)[-1].bound_symbols:
        print(f"{call.executor:>9}: {call.name}")
    print("as eager:", same)

    gradients = []
    for f in (compiled, module):
        module.zero_grad()
        f(x).square().mean().backward()
        gradients.append(module.qkv.weight.grad.clone())
    print("gradients as eager's:", torch.allclose(*gradients, atol=1e-6))


if __name__ == "__main__":
    main()
