"""Which fusion is at fault where a compiled program's results are not eager's."""

import contextlib
import dataclasses

import torch

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._fusions import fusions_of, trace_of
from fulgurite._jit import jit
from fulgurite._module import function_of, is_compiled
from fulgurite._outputs import Outputs
from fulgurite._repro import region_text, repro_script


@dataclasses.dataclass(frozen=True)
class Difference:
    """Of a tensor from the one that was expected.

    output: its number among the tensors of the result, None where it is another; name: in the
        trace, where it is there.
    largest: of the absolute differences that are more than is allowed; inf where a NaN or an
        infinity is expected, or got, alone; NaN where the types differ.
    text: in words.
    """

    output: int | None
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
    is_repeatable: whether eager gives the same twice, of a program with a difference.
    compared: the names of the fusions that ran, up to the one that was found.
    reproduce: a script that shows the difference of the fusion by itself; "" without one.
    claimed: the name of the call that an executor of the user's own runs, where that differs.
    """

    fusion: object = None
    trace: object = None
    calls: str = ""
    difference: Difference | None = None
    without_fusion: bool = False
    is_repeatable: bool = True
    compared: tuple = ()
    reproduce: str = ""
    claimed: str = ""

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
        if self.claimed:
            return (
                f"{self.claimed}, which an executor of your own runs, differs from {self.calls}: "
                f"{self.difference.text}"
            )
        if self.difference is None:
            return f"no fusion differs, and the results are eager's ({ran})"
        if not self.is_repeatable:
            return (
                f"no fusion differs by itself ({ran}), and nothing more can be told: eager differs "
                "from one call to the next, too, so that the function depends on what it changes, "
                f"or draws numbers of its own: {self.difference.text}"
            )
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

    Results are the tensors and numbers that are returned, and the tensors that were written to. The
    order is that in which the fusions run. Raises what `f` raises.
    """
    compiled = f if is_compiled(f) else jit(f, executors=["fused_cpu", "aten"])
    function = function_of(compiled)
    tolerances = _tolerances(rtol, atol)
    search = _Search(tolerances)
    inputs = _Inputs(function.target, args, kwargs)
    eager = inputs.run(function.target)
    with _C.RegionWatch(search.observe):
        apart = inputs.run(compiled)
    if search.error is not None:
        raise search.error
    if search.region is not None:
        return search.found()
    for results, without_fusion in ((apart, True), (inputs.run(compiled), False)):
        difference = first_difference(results, eager, tolerances)
        if difference is not None:
            return Bisection(
                difference=difference,
                without_fusion=without_fusion,
                is_repeatable=not first_difference(inputs.run(function.target), eager, tolerances),
                compared=tuple(search.compared),
            )
    return Bisection(compared=tuple(search.compared))


def _tolerances(rtol, atol):
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given is not None and not (
            isinstance(given, (int, float)) and 0 <= given < float("inf")
        ):
            raise UserError(f"{name} is a number, 0 or greater, or None for torch's, got {given!r}")
    return {} if rtol is None and atol is None else {"rtol": rtol or 0.0, "atol": atol or 0.0}


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
            difference = first_difference(_by_number(fused), _by_number(expected), self.tolerances)
        except Exception as error:  # none may pass through the running plan
            self.error = error
            return
        if difference is not None:
            self.region, self.inputs, self.difference = region, inputs, difference

    def found(self):
        trace = trace_of(self.region)
        if trace is None:
            return Bisection(
                claimed=self.region.name,
                calls=self.region.program,
                difference=self.difference,
                compared=tuple(self.compared),
            )
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


class _Inputs:
    """The arguments of a call, which each run gets as they were."""

    def __init__(self, target, args, kwargs):
        self.args, self.kwargs = args, kwargs
        module = getattr(target, "__self__", target)
        tensors = _C.argument_tensors(args, kwargs)
        named = {f"tensor {number} of the arguments": t for number, t in enumerate(tensors)}
        if isinstance(module, torch.nn.Module):
            named |= dict(module.named_parameters()) | dict(module.named_buffers())
        self._saved = {name: _Saved(tensor) for name, tensor in named.items()}
        self._random = torch.get_rng_state()

    def run(self, function):
        """{what it is: a copy} of the tensors and numbers of the result, and of the other tensors:
        what was saved, itself, of one that was not written to."""
        after = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            read = Outputs(function(*self.args, **self.kwargs), lambda value: False)
            results = _by_number([tensor.detach().clone() for tensor in read.tensors])
            for number, value in enumerate(_numbers_of(read.template)):
                results[f"number {number} of the result"] = _as_tensor(value)
            return results | {name: saved.now() for name, saved in self._saved.items()}
        finally:
            torch.set_rng_state(after)
            for saved in self._saved.values():
                saved.restore()


class _Saved:
    """What a tensor was."""

    def __init__(self, tensor):
        self._tensor, self._copy = tensor, tensor.detach().clone()
        self._storage, self._offset = tensor.untyped_storage(), tensor.storage_offset()
        self._sizes, self._strides = tensor.shape, tensor.stride()

    def now(self):
        return self._copy if self._is_as_it_was() else self._tensor.detach().clone()

    def restore(self):
        if self._is_as_it_was():
            return
        with torch.no_grad(), torch.inference_mode(self._tensor.is_inference()):
            if self._tensor.shape != self._sizes or self._tensor.stride() != self._strides:
                self._tensor.set_(self._storage, self._offset, self._sizes, self._strides)
            self._tensor.copy_(self._copy)

    def _is_as_it_was(self):
        return self._tensor.shape == self._sizes and _same_bits(self._tensor, self._copy)


def _same_bits(a, b):
    return a.is_meta or torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _by_number(tensors):
    return {f"output {number}": tensor for number, tensor in enumerate(tensors)}


def _as_tensor(number):
    """Of the default dtypes, whose tolerances are those of what the number was computed in."""
    wide = isinstance(number, int) and abs(number) >= 2**63
    return torch.tensor(float(number) if wide else number, device="cpu")


def _numbers_of(template):
    """In the order of the result."""
    kind, value, children = template
    if kind == "constant" and isinstance(value, (int, float, complex)):
        yield value
    for child in children:
        yield from _numbers_of(child)


def first_difference(results, expected, tolerances):
    """The Difference of the first of the results, by name, that is not as expected, or None."""
    if results.keys() != expected.keys():
        more = [f"{name} is not expected" for name in results if name not in expected]
        missing = [f"{name} is missing" for name in expected if name not in results]
        return Difference(None, "", float("nan"), ", ".join(more + missing))
    for number, (what, got) in enumerate(results.items()):
        wanted = expected[what]
        if got is wanted:
            continue
        output = number if what.startswith("output ") else None
        types = [(t.dtype, tuple(t.shape), t.stride()) for t in (got, wanted)]
        if types[0] != types[1]:
            text = f"{what}: is {_type_text(got)}, expected {_type_text(wanted)}"
            return Difference(output, "", float("nan"), text)
        if got.is_meta:
            continue
        with contextlib.suppress(AssertionError):
            torch.testing.assert_close(got, wanted, equal_nan=True, **tolerances)
            continue
        return _describe(output, what, got, wanted, tolerances)
    return None


def _describe(output, what, got, wanted, tolerances):
    differences = _absolute_differences(got, wanted)
    disallowed = differences.where(~_is_allowed(got, wanted, differences, tolerances), 0.0)
    differences = disallowed if disallowed.any() else differences
    at = int(differences.argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), got.shape))
    largest = differences.flatten()[at].item()
    where = f" at {list(place)}" if place else ""
    text = (
        f"{what}: the largest difference is {largest:.6g}{where}, "
        f"{got[place].item()} instead of {wanted[place].item()}"
    )
    return Difference(output, "", largest, text)


def _absolute_differences(got, wanted):
    differences = (_widened(got) - _widened(wanted)).abs()
    differences = torch.where(differences.isnan(), float("inf"), differences)
    same = (got == wanted) | ((got != got) & (wanted != wanted))
    return torch.where(same, 0.0, differences)


# (rtol, atol) as torch.testing.assert_close documents them; others have to be equal.
_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def _is_allowed(got, wanted, differences, tolerances):
    rtol, atol = tuple(tolerances.values()) or _TOLERANCES.get(got.dtype, (0.0, 0.0))
    size = _widened(wanted).abs()
    return differences.isfinite() & size.isfinite() & (differences <= atol + rtol * size)


def _widened(tensor):
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _type_text(tensor):
    return f"{tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())}"
