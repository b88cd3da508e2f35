"""The one place that calls torch's structured log, whose functions are private to torch.

Where they are gone, are others, or raise, compilation goes on: the first failure is a warning and
ends the records of this process.
"""

import json
import warnings

import torch

_failed = False


def write_artifact(scope, item, text_of, encoding="string", details=None):
    """Writes one artifact under the compile id and attempt of the scope.

    text_of: called for the payload, a str ("string") or what json can write ("json").
    details: more keys of the record, which tlparse keeps in raw.jsonl.
    """
    global _failed
    if _failed:
        return
    try:
        _write(scope, scope.name(item), text_of, encoding, details or {})
    except Exception as error:
        _failed = True
        warnings.warn(
            f"fulgurite writes no more records to torch's structured log: "
            f"{type(error).__name__}: {error}",
            stacklevel=2,
        )


def _write(scope, name, text_of, encoding, details):
    guards = torch._guards
    compile_id = guards.CompileId(frame_id=scope.frame, frame_compile_id=scope.frame_compile)
    context = guards.CompileContext(compile_id)
    context.attempt = scope.attempt
    payload = _text(text_of(), encoding)
    with guards.compile_context(context):
        torch._logging.trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": name, "encoding": encoding, "fulgurite": 1, **details},
            payload_fn=lambda: payload,
            expect_trace_id=False,
        )


def _text(payload, encoding):
    if encoding == "json":
        return json.dumps(payload, indent=1, default=str, allow_nan=False)
    # tlparse counts the bytes of lines that end as on Unix.
    return payload.replace("\r\n", "\n").replace("\r", "\n")
