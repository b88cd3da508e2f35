"""Random programs of views, writes and detach() under autograd: values, which results have a history,
and gradients are eager's, or the program is refused."""

import random

import pytest
import torch

import fulgurite

PROGRAMS_PER_TEST = 40


class Program:
    """Lines over `x` (an argument), `y` (one that requires grad), `z` and what is made of them.

    `z`: how the program comes by it.
    """

    def __init__(self, seed, z):
        self.choose = random.Random(seed)
        self.shapes = {"x": (3, 3), "y": (3, 3), "z": (3, 3)}
        self.lines = [f"z = {z}"]
        for _ in range(self.choose.randint(4, 10)):
            self.make() if self.choose.random() < 0.4 else self.write()
        results = self.choose.sample(list(self.shapes), 3)
        self.lines.append(f"return {', '.join(f'{name} * 1' for name in results)}")

    def make(self):
        name = self.choose.choice(list(self.shapes))
        if len(self.shapes[name]) == 1:
            made = {"{}.expand(3, 3)": (3, 3), "{} * 2": (3,), "{}.clone()": (3,), "{}[:]": (3,)}
        else:
            made = {
                "{}[1]": (3,), "{}[:, 2]": (3,), "{}.t()": (3, 3), "{} * 2": (3, 3),
                "{}.clone()": (3, 3), "{}.sin()": (3, 3), "{}.view(3, 3)": (3, 3),
            }  # fmt: skip
        if self.choose.random() < 0.15:
            made = {"{}.detach()": self.shapes[name]}
        form = self.choose.choice(list(made))
        result = f"v{len(self.lines)}"
        self.lines.append(f"{result} = {form.format(name)}")
        self.shapes[result] = made[form]

    def write(self):
        to = self.choose.choice([name for name in self.shapes if name not in "xy"])
        like = [n for n in self.shapes if n != to and self.shapes[n] == self.shapes[to]]
        write = self.choose.choice(["add_", "mul_", "copy_"])
        line = f"{to}.{write}({self.choose.choice(like)})" if like else f"{to}.mul_(1.5)"
        quiet = "with torch.no_grad(): " if self.choose.random() < 0.1 else ""
        self.lines.append(quiet + line)

    def text(self):
        return "def program(x, y):\n" + "\n".join(f"    {line}" for line in self.lines)


def outcome(text, wrap):
    names = {"torch": torch, "kept": [torch.zeros(3, 3)]}
    exec(text, names)
    x = torch.arange(9.0).view(3, 3) - 4
    y = torch.arange(9.0).view(3, 3).cos().requires_grad_()
    try:
        results = wrap(names["program"])(x, y)
        losses = [(r * torch.arange(1.0, 4.0)).sum() for r in results if r.requires_grad]
        if losses:
            sum(losses).backward()
    except RuntimeError as error:  # Unsupported is one
        return error
    known = [r.detach() for r in results] + [x, names["kept"][0].detach()]
    histories = [r.requires_grad for r in results] + [names["kept"][0].requires_grad]
    return known, histories, y.grad


def same(eager, ours):
    if isinstance(ours, fulgurite.Unsupported):
        return True
    if isinstance(ours, RuntimeError):
        return isinstance(eager, RuntimeError)
    # Of tensors that were saved and then written to eager raises; see the README.
    if isinstance(eager, RuntimeError):
        return "modified by an inplace operation" in str(eager)
    gradients = [torch.zeros(3, 3) if g is None else g for g in (eager[2], ours[2])]
    return (
        all(map(torch.allclose, eager[0], ours[0]))
        and eager[1] == ours[1]
        and (eager[2] is None) == (ours[2] is None)
        and torch.allclose(*gradients, rtol=1e-5, atol=1e-5)
    )


@pytest.mark.parametrize("z", ["torch.zeros(3, 3)", "x * 1", "kept[0]"])
@pytest.mark.parametrize("block", range(2))
def test_as_eager(z, block):
    compiled = 0
    for seed in range(block * PROGRAMS_PER_TEST, (block + 1) * PROGRAMS_PER_TEST):
        text = Program(seed, z).text()
        eager, ours = outcome(text, lambda f: f), outcome(text, fulgurite.jit)
        assert same(eager, ours), f"{text}\n{eager}\n{ours}"
        compiled += not isinstance(ours, RuntimeError)
    assert compiled > PROGRAMS_PER_TEST // 3
