"""`torch.compile(backend="fulgurite")`: graphs that Dynamo makes, compiled by `fulgurite.jit`.

Imported on first use: it needs torch._dynamo, which takes long to import.
"""

from fulgurite.dynamo._backend import backend, compile, graphs, observers, thunderfx
from fulgurite.dynamo._records import Chunk, Cut, GraphRecord

__all__ = [
    "Chunk",
    "Cut",
    "GraphRecord",
    "backend",
    "compile",
    "graphs",
    "observers",
    "thunderfx",
]
