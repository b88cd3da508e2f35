"""A pass that logs: each result of a program is looked at while the program runs.

The pass puts an operator of one's own, which tells what it sees, behind every matrix product.
"""

import torch

import fulgurite

seen = []


def look(x: torch.Tensor, name: str) -> torch.Tensor:
    finite = bool(x.isfinite().all())
    seen.append((name, x.abs().max().item(), finite))
    return x.clone()


# The gradient goes through as if it were not there.
look_at = fulgurite.register_operator(
    "logging_pass::look",
    look,
    fake=lambda x, name: torch.empty_like(x),
    gradient=lambda grad, x, name: (grad, None),
)


def log_products(trace):
    def rule(call, *args):
        if call.name not in ("aten::linear", "aten::matmul"):
            return NotImplemented
        return look_at(call(*args), call.module or call.name)

    return trace.rewrite(rule)


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    compiled = fulgurite.jit(model, transforms=[log_products])
    x = torch.randn(3, 8)
    same = torch.allclose(compiled(x), model(x))
    for name, largest, finite in seen:
        print(f"{name}: at most {largest:.2f}{'' if finite else ', NOT FINITE'}")
    print("as eager:", same, "with", len(seen), "results seen")
    print("all products seen:", len(seen) == 2)


if __name__ == "__main__":
    main()
