"""A graph as chunks that are compiled, and chunks that are not: as few as the cuts allow.

The order of the calls is kept, so that writes, random numbers and contexts need no second look.
"""

import itertools
import operator

import torch
from torch.fx.passes.split_module import split_module

from fulgurite._jit import jit
from fulgurite.dynamo._checkpoint import convert_checkpoints
from fulgurite.dynamo._kinds import refused_kinds
from fulgurite.dynamo._records import Chunk, Cut
from fulgurite.dynamo._trial import CONTEXTS, refused_nodes

_CALLS = ("call_function", "call_method", "call_module")


def split_into_chunks(record, inputs, options):
    """Fills in the cuts and chunks of the record; returns the function that runs the graph."""
    module = record.converted = convert_checkpoints(record.original)
    cuts = find_cuts(module, inputs, options.min_chunk)
    record.cuts = list(cuts.values())
    runs = _runs(module.graph, cuts)
    if len(runs) <= 1:
        chunk = _chunk("chunk0", module, bool(cuts), options)
        record.chunks.append(chunk)
        return chunk.function
    numbers = {node: i for i, (_, nodes) in enumerate(runs) for node in nodes}
    record.split = _split(module, numbers)
    for i, (is_cut, _) in enumerate(runs):
        name = f"submod_{i}"
        part = convert_checkpoints(getattr(record.split, name))
        _restore_grad_mode(part)
        setattr(record.split, name, part)
        chunk = _chunk(name, part, is_cut, options)
        record.chunks.append(chunk)
    return _runner(record)


def _split(module, numbers):
    """Dynamo's values are hidden: for the symbols in them split_module adds inputs, which no call
    uses, and which may be computed in a later part only."""
    hidden = {
        node: node.meta.pop("example_value")
        for node in module.graph.nodes
        if "example_value" in node.meta
    }
    try:
        return split_module(
            module, module, numbers.__getitem__, keep_original_order=True, tuple_return=True
        )
    finally:
        for node, value in hidden.items():
            node.meta["example_value"] = value


def find_cuts(module, inputs, min_chunk):
    """{node: Cut} of the nodes that do not go into compiled chunks."""
    kinds = refused_kinds(module.graph)
    refused = refused_nodes(module, inputs, set(kinds))
    tried = dict.fromkeys(kinds, "its kind") | dict.fromkeys(refused, "a trial capture")
    reasons = kinds | refused
    for node in module.graph.nodes:
        if node.target is operator.getitem and node.args[0] in reasons:
            reasons.setdefault(node, "it takes a part of the result of a node that is cut out")
            tried.setdefault(node, "its kind")
    for is_cut, nodes in _runs(module.graph, reasons):
        operators = [node for node in nodes if node.target is not operator.getitem]
        if reasons and not is_cut and len(operators) < min_chunk:
            for node in nodes:
                reasons[node] = (
                    f"its chunk has {len(operators)} operators, min_chunk is {min_chunk}"
                )
                tried[node] = "the size of its chunk"
    contexts = _contexts(module.graph)
    return {
        node: Cut(
            node.name,
            _target(node),
            contexts[node],
            tried[node],
            reasons[node],
            _user_line(node),
        )
        for node in module.graph.nodes
        if node in reasons
    }


def _runs(graph, cuts):
    """[(is cut, nodes)]: the calls in order, where a change of context goes with what is before."""
    runs = []
    for node in graph.nodes:
        if node.op not in _CALLS:
            continue
        is_cut = node in cuts
        if runs and (runs[-1][0] == is_cut or node.target in CONTEXTS):
            runs[-1][1].append(node)
        else:
            runs.append((is_cut, [node]))
    return runs


def _contexts(graph):
    """{node: the names of the contexts around it}."""
    found, autocasts, no_grad = {}, [], False
    for node in graph.nodes:
        if node.target is CONTEXTS[0]:
            autocasts.append(node)
        elif node.target is CONTEXTS[1]:
            autocasts.remove(node.args[0])
        elif node.target is CONTEXTS[2]:
            no_grad = not node.args[0]
        found[node] = ("autocast",) * len(autocasts) + ("no_grad",) * no_grad
    return found


def _target(node):
    if isinstance(node.target, str):
        return f"Tensor.{node.target}"
    name = getattr(node.target, "__qualname__", None) or getattr(node.target, "__name__", None)
    return f"{getattr(node.target, '__module__', None) or 'torch'}.{name or node.target}"


def _user_line(node):
    """Of a stack of "File ..., line N, in f" and lines of code: the last such pair."""
    lines = (node.stack_trace or "").strip().splitlines()
    for line, code in reversed(list(itertools.pairwise(lines))):
        if line.strip().startswith("File "):
            file, number = line.split('"')[1], line.split("line ")[1].split(",")[0]
            return f"{file}:{number}: {code.strip()}"
    return ""


def _chunk(name, module, is_cut, options):
    if not is_cut:
        _spell_grad_mode(module)
        # A call that is refused after the trial runs eagerly, and compile_data says why.
        function = jit(module.forward, fallback="eager", **options.jit)
        return Chunk(name, "fulgurite", module, function)
    if options.fallback == "eager":
        return Chunk(name, "eager", module, module.forward)
    return Chunk(name, "inductor", module, torch.compile(module.forward, dynamic=False))


def _restore_grad_mode(part):
    """The part after it sets the grad mode by itself, where it is another."""
    graph = part.graph
    if any(node.target is CONTEXTS[2] for node in graph.nodes):
        with graph.inserting_before(graph.output_node()):
            graph.call_function(CONTEXTS[2], (torch.is_grad_enabled(),))
        part.recompile()


def _spell_grad_mode(module):
    """By the public name, which the recorder of the state of Python knows."""
    for node in module.graph.nodes:
        if node.target is CONTEXTS[2]:
            node.target = torch.set_grad_enabled
    module.recompile()


def _runner(record):
    """Calls the chunks by the names that the split graph has for them."""
    runner = torch.fx.GraphModule(record.split, record.split.graph)
    for chunk in record.chunks:
        setattr(runner, chunk.name, _Calls(chunk.function))
    return runner.forward


class _Calls(torch.nn.Module):
    """A function as a module of a graph."""

    def __init__(self, function):
        super().__init__()
        self.forward = function
