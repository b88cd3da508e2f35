"""The fused regions of a compiled trace, as objects that can be called and looked into."""

import weakref

from fulgurite._C import UserError

_FUSIONS = weakref.WeakKeyDictionary()  # trace -> {name: Fusion}


class Fusion:
    """One region: calls of a trace that run as one piece of machine code.

    It is called with the tensors that the trace gives it, in that order. `last_used` is the code;
    a region has no code before its first run.
    """

    def __init__(self, symbol, region):
        self.name, self.executor = symbol.name, symbol.executor
        self.operators = [inner.name for inner in symbol.subsymbols]
        self._region = region

    def __call__(self, *tensors):
        results = self._region.run(list(tensors))
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self):
        short = (name.partition("::")[2].partition(".")[0] for name in self.operators)
        return f"{self.name} ({self.executor}): ({', '.join(short)})"

    @property
    def last_used(self):
        return FusionCode(self._region)

    @property
    def last_inputs(self):
        """Copies of the tensors of the last run; UserError where they were not kept."""
        if not self._region.keeps_inputs or not self._region.last_inputs:
            raise UserError(
                f"the inputs of {self.name} are not known: compile with "
                "jit(..., store_fusion_inputs=True), and call the compiled function"
            )
        return self._region.last_inputs


class FusionCode:
    """The code of a fusion; str() is its loop program, as last run."""

    def __init__(self, region):
        self._region = region

    def __str__(self):
        return self._region.program

    def last_cpu_code(self):
        """The C++ text that was compiled."""
        return self._region.text

    def assembly(self):
        """What the compiler made of it; compiled again for this."""
        return self._region.assembly()

    def bytes(self):
        """How many bytes a run reads and writes, each element counted once."""
        return self._region.bytes

    def time(self, *tensors, seconds=0.2):
        """Seconds of one run on these tensors, into memory that is there already: the median of as
        many runs as fit into `seconds`. Without tensors, on those of the last run, which the option
        store_fusion_inputs keeps."""
        given = list(tensors) or self._region.last_inputs
        if not given:
            raise UserError(
                "give the tensors to time the fusion on, or compile with "
                "jit(..., store_fusion_inputs=True) and call the compiled function"
            )
        return self._region.time(given, seconds) * 1e-9


def remember_fusions(traces, regions):
    """Of the traces of one compilation, and the regions of its plan."""
    known = {region.name: region for region in regions}
    if not known:
        return
    for trace in traces:
        _FUSIONS[trace] = {
            symbol.name: Fusion(symbol, known[symbol.name])
            for symbol in trace.bound_symbols
            if symbol.name in known
        }


def fusions_of(trace):
    """{name: Fusion} in the order of the trace; empty for a trace that nobody has compiled."""
    return dict(_FUSIONS.get(trace, {}))
