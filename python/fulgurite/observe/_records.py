"""What is written of a compilation: traces, differences, kernels, passes, decisions, guards."""

import difflib
import re

import torch

import fulgurite
from fulgurite._C import TraceValue
from fulgurite._epilogue import epilogue
from fulgurite._fusions import Fusion
from fulgurite._prologue import prologue
from fulgurite.observe._scope import own_scope
from fulgurite.observe._torch_log import write_artifact

_GRADIENT = "Grad transform"
# Where a pass stands, in every run and for every program: tools compare runs by these names.
_POSITIONS = {
    "": 0,
    _GRADIENT: 21,
    "Functionalise": 30,
    "Split Lists": 35,
    "Dead Code Elimination": 40,
    "Common Subexpression Elimination": 45,
    "Constant Folding": 50,
    "Forward/backward split": 60,
    "Transform for execution": 70,
}
_BEFORE_GRADIENT, _FINAL = 20, 99


def log_entry(function, entry):
    """Writes all records of an entry of a compiled function, under the function's own scope."""
    state, record = function.state, entry.record
    if state.log_scope is None:
        state.log_scope = own_scope()
        write_artifact(
            state.log_scope.within(graph=None, chunk=None), "manifest", _manifest, "json"
        )
    scope = state.log_scope.within(specialisation=state.specialisations)
    state.specialisations += 1
    write_artifact(scope, "cache_miss", lambda: _miss(state, record), "json")
    for name, text in (
        ("prologue", lambda: prologue(entry, record).text()),
        ("epilogue", lambda: epilogue(record).text()),
    ):
        log_trace(scope, name, 0, "acquired", text)
        log_trace(scope, name, _FINAL, "final", text)
    log_series(scope, "computation", record.traces)
    log_series(scope, "backward", record.backward_traces)
    for name, traces in (("", record.traces), ("backward_", record.backward_traces)):
        for fusion in _fusions(traces):
            write_artifact(
                scope, f"{name}{fusion.name}_src", lambda f=fusion: f.last_used.last_cpu_code()
            )
    write_artifact(scope, "passes", lambda: _passes(record), "json")
    write_artifact(scope, "fusions", lambda: _decisions(record), "json")
    write_artifact(scope, "guards", lambda: _guards(record), "json")
    write_artifact(scope, "provenance", lambda: _provenance(record), "json")


def log_series(scope, name, traces):
    """Writes the traces of a series: the first, those before and after the grad transform, those
    that a pass changed, and the last; and what each changed, as a unified diff."""
    previous = None
    for position, item, trace in _states(traces):
        log_trace(scope, name, position, item, trace.text)
        if previous is not None and previous is not trace:
            write_artifact(
                scope,
                f"{name}_p{position:02d}_{item}.diff",
                lambda before=previous, after=trace: _difference(before, after),
            )
        previous = trace


def log_trace(scope, name, position, item, text):
    """Writes one trace; text() gives it without times and addresses."""
    write_artifact(
        scope,
        f"{name}_p{position:02d}_{item}",
        text,
        details={"trace": name, "pass_index": position},
    )


def _states(traces):
    """(position, item, trace) of a series, the positions ascending."""
    last, states = -1, []
    for i, trace in enumerate(traces):
        passed = trace.provenance
        if i == 0:
            position, item = 0, "acquired"
        else:
            if passed == _GRADIENT:
                last = max(_BEFORE_GRADIENT, last + 1)
                states.append((last, "before_grad", traces[i - 1]))
            position = max(_POSITIONS.get(passed, 0), last + 1)
            item = "after_grad" if passed == _GRADIENT else _identifier(passed)
        if i > 0 and i == len(traces) - 1:
            position, item = max(_FINAL, last + 1), "final"
        states.append((position, item, trace))
        last = position
    if len(traces) == 1:
        states.append((_FINAL, "final", traces[0]))
    return states


def _identifier(passed):
    return re.sub(r"[^a-z0-9]+", "_", passed.lower()).strip("_") or "unnamed"


def _difference(before, after):
    lines = difflib.unified_diff(
        before.text().splitlines(), after.text().splitlines(), "before", "after", lineterm=""
    )
    return "\n".join(lines) or "no line differs"


def _fusions(traces):
    """The fused regions of what runs, in the order of their names."""
    named = traces[-1].python_ctx() if traces else {}
    return [named[name] for name in sorted(named) if isinstance(named[name], Fusion)]


def _manifest():
    return {"schema": 1, "fulgurite": fulgurite.__version__, "torch": torch.__version__}


def _miss(state, record):
    return {"reason": state.recompile_reason or "the first call", "call": record.signature}


def _passes(record):
    def rows(traces):
        return [
            {"pass": trace.provenance or "Capture", "milliseconds": trace.milliseconds}
            for trace in traces
        ]

    return {
        "milliseconds": record.milliseconds,
        "computation": rows(record.traces),
        "backward": rows(record.backward_traces),
        "no_backward_because": record.undifferentiated,
    }


def _decisions(record):
    return [
        {"call": str(said.call), "executor": said.executor, "refusal": said.refusal}
        for said in record.decisions
    ]


def _guards(record):
    read = [
        {"kind": kind, "place": place, "user": f"{file}:{line}"}
        for kind, place, file, line in record.python_state.guards
    ]
    return {"signature": record.signature, "python_state": read}


def _provenance(record):
    """For each call of what runs, where the user's program made it."""

    def rows(traces):
        calls = traces[-1].bound_symbols if traces else []
        return [
            {
                "call": call.name,
                "results": [v.name for v in call.outputs if isinstance(v, TraceValue)],
                "module": call.module,
                "user": f"{call.source[0]}:{call.source[1]}: {call.source[3]}"
                if call.source
                else "",
            }
            for call in calls
        ]

    return {"computation": rows(record.traces), "backward": rows(record.backward_traces)}
