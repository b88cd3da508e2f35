"""Low-rank adapters: a module made of another one, trained, and merged again."""

import torch

import fulgurite
from fulgurite.transforms import lora, merge_lora


def main():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    adapted = lora(layer, r=4, alpha=8, targets=["linear1", "linear2"])
    names = [name for name, p in adapted.named_parameters() if p.requires_grad]
    print("trained:", ", ".join(names))

    compiled = fulgurite.jit(adapted)
    x, target = torch.randn(4, 6, 32), torch.randn(4, 6, 32)
    print("begins as the module:", torch.allclose(compiled(x), layer(x), atol=1e-6))
    optimiser = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], 1e-2)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(compiled(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print(f"loss: {losses[0]:.4f}, then {losses[-1]:.4f}; smaller: {losses[-1] < losses[0]}")

    expected = adapted(x)
    merged = fulgurite.jit(merge_lora(adapted))
    print("merged computes the same:", torch.allclose(merged(x), expected, atol=1e-5))


if __name__ == "__main__":
    main()
