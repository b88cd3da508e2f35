"""Whether text that the program makes is for people alone: printed, logged, or in an error."""

import ast
import builtins
import functools
import linecache
import logging
import os
import warnings

import torch

_TORCH = os.path.dirname(torch.__file__)
_MESSAGES = (logging.__file__, warnings.__file__)


def is_for_people(frame):
    """`frame`: where the text is made. Of an error, that is so as long as nothing handles it."""
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        frame = frame.f_back
    asked = frame
    while frame is not None:
        if frame.f_code.co_filename in _MESSAGES:
            return True
        frame = frame.f_back
    return asked is not None and _is_within_message(asked)


def _is_within_message(frame):
    where = _position(frame)
    return any(
        _covers(node, where) and _is_message(node, frame)
        for node in _candidates(frame.f_code.co_filename)
    )


def _position(frame):
    positions = list(frame.f_code.co_positions())
    return positions[frame.f_lasti // 2]


@functools.lru_cache(maxsize=16)
def _candidates(file):
    """The calls and raises in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [n for n in ast.walk(tree) if isinstance(n, (ast.Call, ast.Raise, ast.Assert))]


def _covers(node, where):
    line, end_line, column, end_column = where
    if None in where:
        return False
    starts = (node.lineno, node.col_offset) <= (line, column)
    return starts and (end_line, end_column) <= (node.end_lineno, node.end_col_offset)


def _is_message(node, frame):
    if not isinstance(node, ast.Call):
        return True
    called = _value_of(node.func, frame)
    if called is builtins.print or called is warnings.warn:
        return True
    owner = getattr(called, "__self__", None)
    return isinstance(owner, (logging.Logger, logging.LoggerAdapter)) or (
        getattr(called, "__module__", None) == "logging"
    )


def _value_of(node, frame):
    """What a name or an attribute of a name stands for."""
    if isinstance(node, ast.Attribute):
        return getattr(_value_of(node.value, frame), node.attr, None)
    if not isinstance(node, ast.Name):
        return None
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if node.id in names:
            return names[node.id]
    return None
