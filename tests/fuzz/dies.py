"""In place of a check, in a process of its own."""

import os
from typing import Any


def dies(program: Any) -> Any:
    os.abort()
