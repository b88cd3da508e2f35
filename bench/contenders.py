"""What is compared: eager first, the others as ratios to it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import fulgurite

EAGER = "eager"
FULGURITE = "fulgurite"
INDUCTOR = "inductor"


@dataclass(frozen=True)
class Contender:
    """reset: forgets all that was compiled."""

    name: str
    compile: Callable[[Any], Any]
    reset: Callable[[], None] = lambda: None


def contenders(with_inductor: bool = False) -> list[Contender]:
    chosen = [Contender(EAGER, lambda f: f), Contender(FULGURITE, fulgurite.jit)]
    if with_inductor:
        if not any(map(shutil.which, ("g++", "clang++"))):
            raise SystemExit("Inductor needs a C++ compiler: install g++, or leave --inductor out")
        chosen.append(Contender(INDUCTOR, torch.compile, torch.compiler.reset))
    return chosen
