"""Models of transformers from small configurations, with random weights."""

from collections.abc import Callable
from typing import Any

import torch

from tests.conformance.models.workload import Builder, Inputs, Workload

VOCABULARY = 64
HIDDEN = 32
INNER = 64
LAYERS = 2
HEADS = 4
POSITIONS = 64


def build(
    config: str, model: str, inputs: Callable[[], Inputs], options: dict[str, Any]
) -> Builder:
    """A builder; transformers is imported when it is called."""

    def builder() -> Workload:
        import transformers  # noqa: PLC0415  an optional package

        transformers.logging.set_verbosity_error()  # it remarks on every toy configuration
        configuration = getattr(transformers, config)(**options)
        kind = getattr(transformers, model)
        has_sdpa = getattr(kind, "_supports_sdpa", False)
        configuration._attn_implementation = "sdpa" if has_sdpa else "eager"
        return Workload(kind(configuration), inputs)

    return builder


def tokens(batch: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def language() -> Inputs:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def masked() -> Inputs:
    """The first sequence is padded at its end."""
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[0, 9:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def translation() -> Inputs:
    return {"input_ids": tokens(length=9), "labels": tokens(length=7), "use_cache": False}


def image() -> Inputs:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def captioned_image() -> Inputs:
    return {**masked(), **image()}


def speech() -> Inputs:
    return {
        "input_features": torch.randn(2, 16, 40),
        "labels": tokens(length=7),
        "use_cache": False,
    }
