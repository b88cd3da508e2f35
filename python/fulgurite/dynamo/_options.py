"""The options of the backend, checked by name and value."""

import dataclasses
import difflib

from fulgurite._C import UserError
from fulgurite._options import Options, read_options

_FALLBACKS = ("eager", "inductor")
_OF_TORCH = ("fullgraph", "dynamic")


@dataclasses.dataclass(frozen=True)
class BackendOptions:
    """What the backend was asked to do.

    fallback: who runs the parts of a graph that are cut out, "eager" or "inductor".
    min_chunk: a chunk of fewer operators is not compiled by itself, where its neighbours are not.
    jit: options of `fulgurite.jit`, for each chunk.
    """

    fallback: str = "eager"
    min_chunk: int = 3
    jit: dict = dataclasses.field(default_factory=dict)


def read_backend_options(given):
    """`BackendOptions` from keyword arguments; `UserError` for an unknown name or value."""
    own = {name: given[name] for name in ("fallback", "min_chunk") if name in given}
    rest = {name: value for name, value in given.items() if name not in own}
    _check_names(rest)
    if own.get("fallback", "eager") not in _FALLBACKS:
        raise UserError(
            f"option 'fallback' of the backend is {' or '.join(map(repr, _FALLBACKS))}, "
            f"got {own['fallback']!r}"
        )
    least = own.get("min_chunk", 1)
    if not isinstance(least, int) or isinstance(least, bool) or least < 1:
        raise UserError(f"option 'min_chunk' of the backend is a positive int, got {least!r}")
    read_options(rest)
    return BackendOptions(jit=rest, **own)


def _check_names(rest):
    of_jit = [f.name for f in dataclasses.fields(Options) if f.name != "fallback"]
    known = ["fallback", "min_chunk", *of_jit, "nv_store_fusion_inputs"]
    for name in rest:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UserError(
                f"the backend 'fulgurite' got an unknown option {name!r}{hint} "
                f"The options are {', '.join(known[:-1])}."
            )


def of_torch(given):
    """(keyword arguments of torch.compile, the others)."""
    taken = {name: given[name] for name in _OF_TORCH if name in given}
    return taken, {name: value for name, value in given.items() if name not in taken}
