"""Linear layers with int8 weights: a module made of another one, and what it costs in accuracy."""

import torch

import fulgurite
from fulgurite.transforms import Int8Linear, int8_linear


def model(width=256, classes=10):
    return torch.nn.Sequential(
        torch.nn.Linear(32, width),
        torch.nn.GELU(),
        torch.nn.Linear(width, width),
        torch.nn.GELU(),
        torch.nn.Linear(width, classes),
    )


def trained(module, x, y):
    optimiser = torch.optim.Adam(module.parameters(), 1e-3)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimiser.step()
    return module.eval()


def bytes_of(module):
    tensors = [*module.parameters(), *module.buffers()]
    return sum(t.nbytes for t in tensors)


def main():
    torch.manual_seed(0)
    centres = torch.randn(10, 32)
    y = torch.randint(10, (2000,))
    x = centres[y] + 0.9 * torch.randn(2000, 32)
    exact = trained(model(), x[:1000], y[:1000])
    small = fulgurite.jit(int8_linear(exact))

    with torch.no_grad():
        before, after = exact(x[1000:]), small(x[1000:])
    for layer in small.modules():
        if isinstance(layer, Int8Linear):
            scales = f"scales up to {layer.scale.max():.5f}"
            print(f"{layer.in_features:4} -> {layer.out_features:4}: {scales}")
    error = ((after - before).norm() / before.norm()).item()
    rates = [(out.argmax(1) == y[1000:]).float().mean().item() for out in (before, after)]
    print(f"bytes: {bytes_of(exact)} before, {bytes_of(small)} after")
    print(f"relative error of the logits: {error:.4f}")
    print(f"right answers: {rates[0]:.3f} before, {rates[1]:.3f} after")
    print("within one percent:", error < 0.01 and abs(rates[0] - rates[1]) < 0.01)


if __name__ == "__main__":
    main()
