"""Code run in a Python of its own."""

import os
import subprocess
import sys


def run_code(code, **environment):
    """What `python -c` did, with these variables set."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
