"""What the backend would compile of a program, and what it would cut out, before it compiles it."""

import dataclasses

import torch

from fulgurite.dynamo._checkpoint import convert_checkpoints
from fulgurite.dynamo._chunks import find_cuts
from fulgurite.dynamo._options import BackendOptions


@dataclasses.dataclass(frozen=True)
class Report:
    """graphs: for each graph that Dynamo makes of the program, (number of operators, its Cuts).
    breaks: why Dynamo makes several."""

    graphs: list
    breaks: list

    @property
    def supported(self):
        """Whether the whole program would be one compiled graph."""
        return len(self.graphs) == 1 and not self.breaks and not self.graphs[0][1]

    def __str__(self):
        lines = []
        for number, (operators, cuts) in enumerate(self.graphs):
            lines.append(f"graph {number}: {operators} operators, {len(cuts)} cut out")
            lines += [f"  {cut.target}: {cut.reason}\n    {cut.user}" for cut in cuts]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


def examine(target, /, *args, **kwargs):
    """A Report on one call of a function or module. The call runs, in torch's own operators."""
    found = []

    def look(module, inputs):
        cuts = find_cuts(convert_checkpoints(module), inputs, BackendOptions().min_chunk)
        calls = [n for n in module.graph.nodes if n.op.startswith("call_")]
        found.append((len(calls), list(cuts.values())))
        return module.forward

    counted = torch._dynamo.utils.counters["graph_break"]
    before = dict(counted)
    torch.compile(target, backend=look)(*args, **kwargs)
    breaks = [reason for reason, count in counted.items() if count > before.get(reason, 0)]
    return Report(found, [reason.split("\n")[0] for reason in breaks])
