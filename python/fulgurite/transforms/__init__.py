"""Transforms that come with fulgurite.

`autocast` is one of traces, for `jit(transforms=[...])`; the others make another module of a
module, to be given to `jit`.
"""

from fulgurite.transforms._autocast import autocast
from fulgurite.transforms._int8 import Int8Linear, int8_linear
from fulgurite.transforms._lora import LoraLinear, lora, merge_lora

__all__ = ["Int8Linear", "LoraLinear", "autocast", "int8_linear", "lora", "merge_lora"]
