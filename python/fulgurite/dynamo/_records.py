"""What is kept of each graph that Dynamo hands over, for users and for logs to read."""

import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Cut:
    """Why a node of a graph does not run in a compiled chunk.

    node, target: its name, and what it calls, as text.
    context: the regions around it, "autocast" or "no_grad", outermost first.
    tried: "its kind" where the kind of node decides, "a trial capture", or "the size of its chunk".
    reason: in words.
    user: the line of the user's program that made it, "file:line: code", or "".
    """

    node: str
    target: str
    context: tuple
    tried: str
    reason: str
    user: str


@dataclasses.dataclass
class Chunk:
    """A part of a graph.

    executor: "fulgurite", "eager" or "inductor".
    function: what is called; for "fulgurite" what `fulgurite.jit` returned.
    """

    name: str
    executor: str
    module: torch.fx.GraphModule
    function: object


@dataclasses.dataclass
class GraphRecord:
    """One graph of Dynamo.

    number: counts the graphs of the process.
    compile_id, attempt: Dynamo's, None where it has none (a backend that is called by hand).
    original: the graph as Dynamo made it.
    converted: the same with checkpoint regions as calls of torch.utils.checkpoint; `original`
        where there are none.
    split: a graph that calls the chunks by their names; None where one chunk is the whole graph.
    """

    number: int
    compile_id: object
    attempt: int | None
    original: torch.fx.GraphModule
    converted: torch.fx.GraphModule
    split: torch.fx.GraphModule | None = None
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    cuts: list[Cut] = dataclasses.field(default_factory=list)

    @property
    def compiled(self):
        """The jitted function of each chunk that fulgurite runs, in order."""
        return [chunk.function for chunk in self.chunks if chunk.executor == "fulgurite"]
