"""Which fusion is at fault where a compiled program's results are not eager's."""

import contextlib
import dataclasses

import torch

from fulgurite import _C
from fulgurite._fusions import fusions_of
from fulgurite._jit import jit
from fulgurite._module import function_of
from fulgurite._outputs import Outputs
from fulgurite._repro import region_text, repro_script


@dataclasses.dataclass(frozen=True)
class Difference:
    """Of a tensor from the one that was expected.

    output: its number among the results; name: in the trace, where it is there.
    largest: of the absolute differences; inf where a NaN or an infinity is expected, or got, alone;
        NaN where the types differ.
    text: in words.
    """

    output: int
    name: str
    largest: float
    text: str


@dataclasses.dataclass(frozen=True, repr=False)
class Bisection:
    """What `bisect` found; repr() says it.

    fusion: the first fusion that does not give what its calls give, with its trace, or None.
    calls: the function that it prints as.
    difference: of one of its results; where there is no such fusion, of a result of the whole
        program from eager's; None: there is none.
    without_fusion: whether the program differs from eager where each call runs by itself.
    compared: the names of the fusions that ran, up to the one that was found.
    reproduce: a script that shows the difference of the fusion by itself; "" without one.
    """

    fusion: object = None
    trace: object = None
    calls: str = ""
    difference: Difference | None = None
    without_fusion: bool = False
    compared: tuple = ()
    reproduce: str = ""

    def __repr__(self):
        ran = (
            f"{len(self.compared)} compared: {', '.join(self.compared)}"
            if self.compared
            else ("none ran; compile_data(f) has the reasons in fusion_decisions and fallbacks")
        )
        if self.fusion is not None:
            return (
                f"{self.fusion!r} differs from its calls: {self.difference.text}\n\n{self.calls}"
                "\n\n.reproduce is a script that shows it by itself"
            )
        if self.difference is None:
            return f"no fusion differs, and the results are eager's ({ran})"
        if self.without_fusion:
            return (
                f"the difference is there without any fusion ({ran}), where each call runs by "
                f"itself: {self.difference.text}"
            )
        return (
            f"no fusion differs by itself ({ran}), but the results of all together do: "
            f"{self.difference.text}"
        )


def bisect(f, /, *args, rtol=None, atol=None, **kwargs):
    """Finds the first fusion whose results differ from those of the calls that it was made of.

    f: a function or a module, which is compiled for this, or a compiled one, which is called as it
        is, with the kernels that it has. It is called with the other arguments: once eagerly, once
        with each fusion beside its calls, on the same tensors, and once as compiled. Random numbers
        are drawn anew for each, and tensors among the arguments, parameters and buffers are what
        they were afterwards; other state that `f` changes is changed by each call.
    rtol, atol: how much a result may differ; by default as torch.testing.assert_close has it.

    The order is that in which the fusions run. Raises what `f` raises.
    """
    compiled = f if _is_compiled(f) else jit(f, executors=["fused_cpu", "aten"])
    function = function_of(compiled)
    tolerances = {} if rtol is None and atol is None else {"rtol": rtol or 0.0, "atol": atol or 0.0}
    search = _Search(tolerances)
    inputs = _Inputs(function.target, args, kwargs)
    eager = inputs.run(function.target)
    with _C.RegionWatch(search.observe):
        apart = inputs.run(compiled)
    if search.error is not None:
        raise search.error
    if search.region is not None:
        return search.found(_series_of(function, search.region))
    for results, without_fusion in ((apart, True), (inputs.run(compiled), False)):
        difference = first_difference(results, eager, tolerances)
        if difference is not None:
            break
    return Bisection(
        difference=difference,
        without_fusion=difference is not None and without_fusion,
        compared=tuple(search.compared),
    )


class _Search:
    """The first region that differs, as a RegionWatch observes them."""

    def __init__(self, tolerances):
        self.tolerances, self.compared, self.error = tolerances, [], None
        self.region = self.inputs = self.difference = None

    def observe(self, region, inputs, fused, expected):
        if self.region is not None or self.error is not None:
            return
        self.compared.append(region.name)
        try:
            difference = first_difference(fused, expected, self.tolerances)
        except Exception as error:  # none may pass through the running plan
            self.error = error
            return
        if difference is not None:
            self.region, self.inputs, self.difference = region, inputs, difference

    def found(self, traces):
        trace = traces[-1]
        fusion = next(f for f in fusions_of(trace).values() if f.is_code(self.region))
        symbol = next(s for s in trace.bound_symbols if s.name == fusion.name)
        name = symbol.outputs[self.difference.output].name
        return Bisection(
            fusion=fusion,
            trace=trace,
            calls=region_text(trace, fusion.name),
            difference=dataclasses.replace(
                self.difference, name=name, text=f"{name}, {self.difference.text}"
            ),
            compared=tuple(self.compared),
            reproduce=repro_script(
                trace, fusion, self.inputs, values=True, tolerances=self.tolerances
            ),
        )


def _series_of(function, region):
    records = [entry.record for entry in _C.entries(function)]
    for record in [function.state.last, *records]:
        if any(f.is_code(region) for f in fusions_of(record.traces[-1]).values()):
            return record.traces
    raise _C.InternalError(f"{region.name} ran, and is of no entry")


def _is_compiled(f):
    return isinstance(f, _C.Function) or hasattr(type(f), "_fulgurite_function")


class _Inputs:
    """The arguments of a call, which each run gets as they were."""

    def __init__(self, target, args, kwargs):
        self.args, self.kwargs = args, kwargs
        module = getattr(target, "__self__", target)
        tensors = list(_C.argument_tensors(args, kwargs))
        if isinstance(module, torch.nn.Module):
            tensors += [*module.parameters(), *module.buffers()]
        self._saved = [(tensor, tensor.detach().clone()) for tensor in tensors]
        self._random = torch.get_rng_state()

    def run(self, function):
        """Copies of the tensors of the result."""
        after = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            result = function(*self.args, **self.kwargs)
            tensors = Outputs(result, lambda value: False).tensors
            return [tensor.detach().clone() for tensor in tensors]
        finally:
            torch.set_rng_state(after)
            self._restore()

    def _restore(self):
        for tensor, saved in self._saved:
            if tensor.shape != saved.shape or not _same_bits(tensor, saved):
                with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
                    tensor.copy_(saved)


def _same_bits(a, b):
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def first_difference(results, expected, tolerances):
    """The Difference of the first tensor that is not as expected, or None."""
    for number, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        types = [(t.dtype, tuple(t.shape), t.stride()) for t in (got, wanted)]
        if types[0] != types[1]:
            text = f"output {number}: is {_type_text(got)}, expected {_type_text(wanted)}"
            return Difference(number, "", float("nan"), text)
        with contextlib.suppress(AssertionError):
            torch.testing.assert_close(got, wanted, equal_nan=True, **tolerances)
            continue
        return _describe(number, got, wanted)
    return None


def _describe(number, got, wanted):
    differences = _absolute_differences(got, wanted)
    at = int(differences.argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), got.shape))
    largest = differences.flatten()[at].item()
    where = f" at {list(place)}" if place else ""
    text = (
        f"output {number}: the largest difference is {largest:.6g}{where}, "
        f"{got[place].item()} instead of {wanted[place].item()}"
    )
    return Difference(number, "", largest, text)


def _absolute_differences(got, wanted):
    wide = torch.complex128 if got.is_complex() else torch.float64
    a, b = got.to(wide), wanted.to(wide)
    differences = (a - b).abs()
    differences = torch.where(differences.isnan(), float("inf"), differences)
    same = (got == wanted) | ((got != got) & (wanted != wanted))
    return torch.where(same, 0.0, differences)


def _type_text(tensor):
    return f"{tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())}"
