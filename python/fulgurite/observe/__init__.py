"""Shows what was compiled in torch's structured log (TORCH_TRACE), which tlparse reads.

This file decides whether there is anything to do; the rest is imported by the first record only.
"""

import logging


def is_logging():
    """Whether torch's structured log goes anywhere. Nothing is formatted to find out.

    Torch adds a handler in any case; without TORCH_TRACE it has neither a stream nor a folder. And
    pytest adds its own to every logger, for what a failing test is to show.
    """
    return any(
        (
            getattr(handler, "stream", None) is not None
            or getattr(handler, "root_dir", "") is not None
        )
        and not type(handler).__module__.startswith("_pytest.")
        for handler in logging.getLogger("torch.__trace").handlers
    )


def log_compilation(function, entry):
    """Writes the records of an entry of a compiled function, where torch's log goes anywhere."""
    if is_logging():
        from fulgurite.observe._records import log_entry  # noqa: PLC0415  what does not log does not pay for it

        log_entry(function, entry)
