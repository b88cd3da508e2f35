"""A graph as chunks that are compiled, and chunks that are not."""

import torch

from fulgurite._jit import jit
from fulgurite.dynamo._records import Chunk


def split_into_chunks(record, inputs, options):
    """Fills in the chunks of the record; returns the function that runs the graph."""
    module = record.converted = _plain(record.converted)
    # A call that is refused after the trial runs eagerly, and compile_data says why.
    function = jit(module.forward, fallback="eager", **options.jit)
    record.chunks.append(Chunk("chunk0", "fulgurite", module, function))
    return function


def _plain(module):
    """Dynamo's makes its code in its first call, which a capture would see as an effect."""
    return torch.fx.GraphModule(module, module.graph)
