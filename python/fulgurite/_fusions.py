"""The fused regions of a compiled trace, as objects that can be called, looked into and changed."""

import dataclasses
import weakref

from fulgurite import _C
from fulgurite._C import UserError

_FUSIONS = weakref.WeakKeyDictionary()  # trace -> {name: Fusion}


class Fusion:
    """One region: calls of a trace that run as one piece of machine code.

    It is called with the tensors that the trace gives it, in that order. `last_used` is the code.
    """

    def __init__(self, symbol, region, replaced):
        self.name, self.executor = symbol.name, symbol.executor
        self.operators = [inner.name for inner in symbol.subsymbols]
        self._region, self._replaced = region, replaced

    def __call__(self, *tensors):
        results = self._region.run(list(tensors))
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self):
        short = (name.partition("::")[2].partition(".")[0] for name in self.operators)
        note = ", with another C++ text" if self.is_replaced else ""
        return f"{self.name} ({self.executor}): ({', '.join(short)}){note}"

    @property
    def last_used(self):
        return FusionCode(self.name, self._region)

    @property
    def last_inputs(self):
        """Copies of the tensors of the last run; UserError where they were not kept."""
        if not self._region.keeps_inputs or not self._region.last_inputs:
            raise UserError(
                f"the inputs of {self.name} are not known: compile with "
                "jit(..., store_fusion_inputs=True), and call the compiled function"
            )
        return self._region.last_inputs

    def is_code(self, region):
        """Whether this is what runs as that region of the extension."""
        return self._region is region

    @property
    def is_replaced(self):
        """Whether another C++ text than the printed one runs."""
        return self._region.used_text != self._region.text

    def replace_cpu_code(self, text):
        """Runs this C++ text in place of the printed one (last_used.last_cpu_code(), edited), from
        the next call on: wherever the compiled function runs the same printed text, in entries for
        other shapes and in those yet to come, too. Other compiled functions, and copies of this
        one, are as they were.

        The text has to define the same function. What it does with its pointers is not checked.
        Raises UserError, with the compiler's messages, for one that does not compile; what was
        there before still runs then.
        """
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"the C++ text of {self.name} is a str that is not empty, got {text!r}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"the C++ text of {self.name} cannot be written as UTF-8: {error}"
            ) from error
        self._replaced.replace(self._region, text)

    def printed_cpu_code(self):
        """The C++ text that the executor printed, whether or not it runs."""
        return self._region.text

    def restore_cpu_code(self):
        """Runs the printed text again."""
        self._replaced.restore(self._region)


@dataclasses.dataclass(frozen=True)
class Throughput:
    """How fast a fusion runs, beside a copy that reads and writes as many bytes on the same
    threads: what moves its bytes once can hardly be faster. str() says it in gigabytes (1e9) a
    second. Both are medians."""

    bytes: int
    seconds: float
    copy_seconds: float

    @property
    def share(self):
        """Of the copy's bandwidth."""
        return self.copy_seconds / self.seconds

    def __str__(self):
        took = f"{self.bytes} bytes in {1e6 * self.seconds:.2f} us"
        if not self.bytes or not self.copy_seconds:
            return took
        speed, limit = (self.bytes * 1e-9 / taken for taken in (self.seconds, self.copy_seconds))
        return f"{took}: {speed:.1f} GB/s, {self.share:.0%} of the {limit:.1f} GB/s of a copy"


class FusionCode:
    """The code of a fusion; str() is its loop program, as last run."""

    def __init__(self, name, region):
        self._name, self._region = name, region

    def __str__(self):
        return self._region.program

    def __repr__(self):
        return f"<the code of {self._name}, which moves {self.bytes()} bytes a run>"

    def last_cpu_code(self):
        """The C++ text that runs."""
        return self._region.used_text

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
                f"give the tensors to time {self._name} on, or compile with "
                "jit(..., store_fusion_inputs=True) and call the compiled function"
            )
        return self._region.time(given, seconds) * 1e-9

    def throughput(self, *tensors, seconds=0.2):
        """Of `time`, and of a copy of as many bytes."""
        taken = self.time(*tensors, seconds=seconds)
        return Throughput(self.bytes(), taken, _C.time_copy(self.bytes(), seconds) * 1e-9)


class ReplacedTexts:
    """The C++ texts that a user gave one compiled function in place of printed ones."""

    def __init__(self):
        self._texts = {}  # as printed -> as given
        self._regions = weakref.WeakSet()  # of its entries

    def add(self, regions):
        """Those of a new entry."""
        for region in regions:
            self._regions.add(region)
            if region.text in self._texts:
                region.replace_text(self._texts[region.text])

    def replace(self, region, text):
        region.replace_text(text)  # which raises where it does not compile
        self._texts[region.text] = text
        self._set(region.text, text)

    def restore(self, region):
        self._texts.pop(region.text, None)
        self._set(region.text, "")

    def _set(self, printed, text):
        for region in list(self._regions):
            if region.text == printed:
                region.replace_text(text)


def remember_fusions(traces, regions, replaced):
    """Of the traces of one compilation, and the regions of its plan; `replaced` is the
    ReplacedTexts of the compiled function."""
    replaced.add(regions)
    known = {region.name: region for region in regions}
    if not known:
        return
    for trace in traces:
        _FUSIONS[trace] = {
            symbol.name: Fusion(symbol, known[symbol.name], replaced)
            for symbol in trace.bound_symbols
            if symbol.name in known
        }


def trace_of(region):
    """The last of the traces in which the region is, or None."""
    traces = [trace for trace, fusions in _FUSIONS.items() if _fusion_of(fusions, region)]
    return traces[-1] if traces else None


def _fusion_of(fusions, region):
    return next((fusion for fusion in fusions.values() if fusion.is_code(region)), None)


def fusions_of(trace):
    """{name: Fusion} in the order of the trace; empty for a trace that nobody has compiled."""
    return dict(_FUSIONS.get(trace, {}))
