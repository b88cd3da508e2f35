"""Checkpoint regions of a graph as calls of torch.utils.checkpoint, which a capture follows."""

import torch
from torch.utils.checkpoint import checkpoint

_REGION = torch.ops.higher_order.tag_activation_checkpoint
# What decides which values are kept, of selective checkpointing.
_SELECTS = "_checkpoint_context_fn"


def convert_checkpoints(module):
    """The graph as a plain module, whose regions that do not select what they keep are converted.

    Dynamo's modules make their code in their first call, which a capture would see as an effect.
    """
    graph = torch.fx.Graph()
    copied = {}
    result = graph.graph_copy(module.graph, copied, return_output_node=True)
    if result is not None:
        value, output = result
        graph.output(value).meta.update(output.meta)
    plain = torch.fx.GraphModule(module, graph)
    for name, child in list(plain.named_children()):
        if isinstance(child, torch.fx.GraphModule):
            setattr(plain, name, convert_checkpoints(child))
    for node in graph.nodes:
        if node.op == "call_function" and node.target is _REGION:
            _convert(module, node)
    plain.recompile()
    return plain


def _convert(module, node):
    body = getattr(module, node.args[0].target)
    if _SELECTS in body.meta or "context_fn" in node.kwargs:
        return
    node.target = checkpoint
    node.kwargs = {**node.kwargs, "use_reentrant": False}
