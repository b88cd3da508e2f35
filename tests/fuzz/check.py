"""A program compiled, against eager: what differs, and what was fused."""

import collections
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

import fulgurite
from fulgurite import examine
from tests.conformance.trees import alias_signature, identity_signature
from tests.fuzz.evaluation import SEED, Evaluation, Rejected, evaluate, is_float
from tests.fuzz.exceptions import EAGER_ERRORS
from tests.fuzz.inputs import raising
from tests.fuzz.programs import Program, function_of, make, overload

EXECUTORS = ["fused_cpu", "aten"]
# Of eager's own error, of what errors of a few units in the last place make of the result, and of
# units in the last place of the result itself: how many of each may ours be.
OF_EAGER, OF_SPREAD, OF_UNITS = 4, 8, 2


@dataclass
class Outcome:
    """kind: "" where all is well; "refused" is no failure."""

    kind: str = ""
    detail: str = ""
    regions: list[list[str]] = field(default_factory=list)  # operators, by region
    compared: int = 0
    unsure: int = 0  # elements whose rounding errors may do anything
    other_sizes: bool = False
    raised: int = 0  # inputs of which eager raises an error


class Differs(Exception):
    def __init__(self, kind: str, detail: str):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


def check(program: Program, threads: int = 2) -> Outcome:
    """Never raises, but for what ends the process."""
    outcome = Outcome()
    try:
        _check(program, outcome, threads)
    except Differs as found:
        outcome.kind, outcome.detail = found.kind, found.detail
    except Rejected as reason:
        outcome.kind, outcome.detail = "rejected", str(reason)
    except fulgurite.Unsupported as reason:
        outcome.kind, outcome.detail = "refused", str(reason)
    return outcome


def _check(program: Program, outcome: Outcome, threads: int) -> None:
    function = function_of(program)
    compiled = fulgurite.jit(function, executors=EXECUTORS)
    for inputs in program.given():
        evaluation = evaluate(program, inputs)
        expected_inputs, got_inputs = make(inputs), make(inputs)
        with torch.no_grad(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            expected, state = _seeded(function, expected_inputs)
            try:
                got, state_of_ours = _seeded(compiled, got_inputs)
            except (fulgurite.Unsupported, Differs):
                raise
            except Exception as error:
                raise Differs("error", f"{type(error).__name__}: {error}") from None
        if any("call by call" in str(w.message) for w in told):
            raise Differs("layout", "a region runs call by call")
        if not torch.equal(state, state_of_ours):
            raise Differs("generator", "another state of the generator")
        _note_regions(compiled, outcome)
        _compare(program, evaluation, expected, got, outcome)
        _same_memory(expected, expected_inputs, got, got_inputs)
        _compare_inputs(program, evaluation, expected_inputs, got_inputs, outcome)
        if threads > 1:
            _with_threads(_all_values(program), compiled, inputs, got, threads)
    _check_errors(program, function, compiled, outcome)
    sizes = [[one.sizes for one in inputs] for inputs in program.given()]
    outcome.other_sizes = len(sizes) > 1 and sizes[0] != sizes[1]


def _seeded(function: Callable, inputs: list) -> tuple[list, torch.Tensor]:
    """The results, and the state of the generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return list(function(*inputs)), torch.get_rng_state()


def _check_errors(program: Program, function, compiled, outcome: Outcome) -> None:
    """Of data of which eager raises an error the compiled program raises one too, and writes to no
    input before."""
    writes = any(overload(call.op)._schema.is_mutable for call in program.calls)
    for inputs in raising(program.inputs):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(*make(inputs))
                continue
            except EAGER_ERRORS as error:
                expected = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            got = make(inputs)
            try:
                compiled(*got)
            except EAGER_ERRORS:
                outcome.raised += 1
            else:
                raise Differs("silent", f"eager raises {expected}")
        for i, (e, g) in enumerate(zip(make(inputs), got)):
            if not writes and not same_bits(e, g):
                raise Differs("input", f"input {i} is changed before an error")


def _note_regions(compiled, outcome: Outcome) -> None:
    trace = fulgurite.last_traces(compiled)[-1]
    if not outcome.regions:
        outcome.regions = [f.operators for _, f in examine.get_fusions(trace)]


def _compare_inputs(
    program: Program, evaluation: Evaluation, expected: list, got: list, outcome: Outcome
) -> None:
    """Unchanged, where the program writes nothing at all; else as eager leaves them."""
    writes = any(overload(call.op)._schema.is_mutable for call in program.calls)
    for i, (e, g) in enumerate(zip(expected, got)):
        if not writes and not same_bits(e, g):
            raise Differs("input", f"input {i} is changed")
        if writes:
            shadows, exact = evaluation.values[i].shadows, evaluation.is_exact(i)
            _compare_values(e, g, shadows, exact, f"input {i}", outcome)


def _compare(
    program: Program, evaluation: Evaluation, expected: list, got: list, outcome: Outcome
) -> None:
    if len(expected) != len(got):
        raise Differs("results", f"{len(got)} for {len(expected)}")
    for i, (e, g, number) in enumerate(zip(expected, got, program.outputs)):
        where = f"result {i}"
        if e.dtype != g.dtype:
            raise Differs("dtype", f"{where}: {g.dtype} for {e.dtype}")
        if e.shape != g.shape:
            raise Differs("shape", f"{where}: {tuple(g.shape)} for {tuple(e.shape)}")
        if e.numel() and _strides(e) != _strides(g):
            raise Differs("strides", f"{where}: {g.stride()} for {e.stride()}, of {tuple(e.shape)}")
        value = evaluation.values[number]
        _compare_values(e, g, value.shadows, evaluation.is_exact(number), where, outcome)


def _strides(t: torch.Tensor) -> list[int]:
    return [s for s, n in zip(t.stride(), t.size()) if n > 1]


def _compare_values(
    e: torch.Tensor,
    g: torch.Tensor,
    shadows: list[torch.Tensor],
    exact: bool,
    where: str,
    outcome: Outcome,
) -> None:
    outcome.compared += e.numel()
    if not is_float(e):
        wrong = e != g
        kind = "value"
    elif exact:
        zeros = (e == 0) & (g == 0) & (e.signbit() != g.signbit())
        wrong = ~((e == g) | (e.isnan() & g.isnan())) | zeros
        kind = "zero" if wrong.equal(zeros) else "value"
    else:
        wrong, kind, unsure = _float_errors(e, g, shadows)
        outcome.unsure += int(unsure.sum())
    if bool(wrong.any()):
        at = tuple(wrong.nonzero()[0].tolist())
        beside = f", float64 has {shadows[0][at].item()!r}" if is_float(e) else ""
        raise Differs(
            kind,
            f"{where}{list(at)}: {g[at].item()!r} for {e[at].item()!r}{beside} "
            f"({int(wrong.sum())} of {wrong.numel()} differ, {e.dtype})",
        )


def _kinds(t: torch.Tensor) -> torch.Tensor:
    """0 for numbers, 1 for NaN, 2 and 3 for infinities."""
    infinite = torch.where(t > 0, 2, 3)
    return torch.where(t.isnan(), 1, torch.where(t.isinf(), infinite, 0))


def _float_errors(e: torch.Tensor, g: torch.Tensor, shadows: list[torch.Tensor]):
    """(what is wrong, the kind of the first, what cannot be said)."""
    info = torch.finfo(e.dtype)
    least = info.smallest_normal * info.eps
    wide, theirs, exact, others = g.double(), e.double(), shadows[0], torch.stack(shadows[1:])
    kind = _kinds(wide)
    known = torch.stack([_kinds(theirs), _kinds(exact), *(_kinds(o) for o in others)])
    misplaced = ~(known == kind).any(0)
    # Rounding decides whether the largest numbers are infinite.
    misplaced &= ~((exact.abs() > info.max * (1 - 8 * info.eps)) & (kind != 1))
    spread = (others - exact).abs().amax(0)
    unsure = ~torch.isfinite(spread)
    eagers = _error_near(exact, theirs)
    allowed = OF_SPREAD * spread + OF_EAGER * eagers
    allowed += OF_UNITS * (info.eps * exact.abs() + least)
    far = (wide - exact).abs() > allowed
    far &= (wide - theirs).abs() > OF_UNITS * info.eps * theirs.abs() + least
    far &= torch.isfinite(wide) & torch.isfinite(exact) & torch.isfinite(theirs) & ~unsure
    zero = (torch.stack([exact, *others]) == 0).all(0) & (theirs == 0) & (wide == 0)
    agreed = (torch.stack([exact, *others]).signbit() == theirs.signbit()).all(0)
    zero &= agreed & (theirs.signbit() != wide.signbit())
    for wrong, name in ((misplaced, "infinite"), (far, "far"), (zero, "zero")):
        if bool(wrong.any()):
            return wrong, name, unsure
    return far, "", unsure


def _error_near(exact: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Eager's largest error among results of about the same size."""
    error = (theirs - exact).abs()
    error = torch.where(torch.isfinite(error), error, 0.0)
    size = torch.div(torch.frexp(exact.nan_to_num(0, 0, 0))[1], 4, rounding_mode="floor")
    result = torch.zeros_like(error)
    for one in torch.unique(size):
        same = size == one
        result[same] = error[same].max()
    return result


def _same_memory(expected: list, expected_inputs: list, got: list, got_inputs: list) -> None:
    for name, signature in (("alias", alias_signature), ("identity", identity_signature)):
        e, g = signature(expected, expected_inputs), signature(got, got_inputs)
        if e != g:
            raise Differs(name, f"{g} for {e}")


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaN are all one; zeros are two."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not is_float(a):
        return torch.equal(a, b)
    same = (a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan())
    return bool(same.all())


def _all_values(program: Program) -> Callable:
    """The program, with the results of every call."""
    results = tuple(r for call in program.calls for r in call.results)
    return function_of(replace(program, outputs=results or program.outputs))


def _with_threads(eager: Callable, compiled, inputs, got: list, threads: int) -> None:
    """Another number of threads changes no bit, where it changes none of eager's."""
    before = torch.get_num_threads()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, _ = _seeded(eager, make(inputs))
        torch.set_num_threads(threads)
        try:
            repeated, _ = _seeded(eager, make(inputs))
            again, _ = _seeded(compiled, make(inputs))
        finally:
            torch.set_num_threads(before)
    if not all(same_bits(a, b) for a, b in zip(expected, repeated)):
        return
    for i, (a, b) in enumerate(zip(got, again)):
        if not same_bits(a, b):
            raise Differs("threads", f"result {i} differs on {threads} threads")


def counted(outcomes: list[Outcome]) -> collections.Counter:
    """How often each operator was in a region."""
    return collections.Counter(
        name.removeprefix("aten::") for o in outcomes for region in o.regions for name in region
    )
