"""Real architectures at toy size: a builder for each name."""

from tests.conformance.models.blocks import BLOCKS
from tests.conformance.models.decoders import DECODERS
from tests.conformance.models.encoders import ENCODERS
from tests.conformance.models.workload import Builder, Workload

MODELS: dict[str, Builder] = {**DECODERS, **ENCODERS, **BLOCKS}

__all__ = ["MODELS", "Builder", "Workload"]
