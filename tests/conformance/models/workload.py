"""What a model of the list is: a module and inputs for it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Inputs = tuple | dict[str, object]


@dataclass(frozen=True)
class Workload:
    """inputs: draws new ones on each call."""

    module: torch.nn.Module
    inputs: Callable[[], Inputs]


Builder = Callable[[], Workload]
