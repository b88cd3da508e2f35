"""The backend, and `compile`: torch.compile with it in one call."""

import collections
import itertools

import torch
from torch._guards import CompileContext

from fulgurite._C import UserError
from fulgurite._inspect import TraceSeries, last_backward_traces, last_traces
from fulgurite.dynamo._chunks import split_into_chunks
from fulgurite.dynamo._options import of_torch, read_backend_options
from fulgurite.dynamo._records import GraphRecord

_KEPT = 64
_latest = collections.deque(maxlen=_KEPT)
_numbers = itertools.count()

# Each is called with the GraphRecord of a graph when its chunks are made, before the first call.
observers = []


def graphs():
    """The records of the latest graphs of this process, of any compiled program; the last last.
    torch._dynamo.reset() forgets them."""
    return list(_latest)


def backend(module, inputs, *, options=None, mode=None):
    """What torch.compile calls for each graph; returns the function that runs it.

    module: the graph. inputs: a tensor, or a symbolic int, for each of its placeholders.
    options: `fulgurite.dynamo._options.BackendOptions`, and those of `fulgurite.jit`.
    Raises UserError for an unknown option, or a mode other than "default".
    """
    return _compile_graph(module, inputs, _read(options, mode), [])


backend.reset = _latest.clear  # by torch._dynamo.reset()


def compile(target, **options):
    """torch.compile(target, backend="fulgurite"), as an object that shows what was compiled.

    options: `fullgraph` and `dynamic`, which are torch.compile's, and those of the backend.
    """
    given, own = of_torch(options)
    return Compiled(target, given, read_backend_options(own))


thunderfx = compile


class Compiled:
    """A function or module compiled through Dynamo; called as it is.

    graphs: a GraphRecord for each graph that Dynamo made of it.
    """

    def __init__(self, target, given, options):
        self.graphs = []
        self._target = target

        def fulgurite(module, inputs):
            return _compile_graph(module, inputs, options, self.graphs)

        self._compiled = torch.compile(target, backend=fulgurite, **given)

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.__dict__["_target"], name)

    @property
    def last_traces(self):
        """The trace that runs, of each chunk of each graph that has been called."""
        return [traces[-1] for traces in self._series(last_traces) if traces]

    @property
    def last_backward_traces(self):
        """The trace of the backward pass that runs, of each chunk that has one."""
        return [traces[-1] for traces in self._series(last_backward_traces) if traces]

    def _series(self, of):
        functions = [function for record in self.graphs for function in record.compiled]
        return [of(function) if function.state.last else TraceSeries() for function in functions]


def _read(options, mode):
    if mode not in (None, "default"):
        raise UserError(
            f"the backend 'fulgurite' has no mode {mode!r}; leave it out, or set options"
        )
    return read_backend_options(dict(options or {}))


def _compile_graph(module, inputs, options, kept):
    context = CompileContext.try_get()
    record = GraphRecord(
        next(_numbers),
        context.compile_id if context else None,
        context.attempt if context else None,
        module,
        module,
    )
    function = split_into_chunks(record, inputs, options)
    _latest.append(record)
    kept.append(record)
    for observe in observers:
        observe(record)
    return function
