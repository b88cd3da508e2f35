"""What one case can come to."""

PASS = "pass"
VALUE = "value"  # a wrong number
META = "meta"  # a wrong dtype, shape, stride, alias, ...
MISSED = "missed_error"  # eager raises and the compiled program does not, or raises another error
INTERNAL = "internal"  # an exception where eager has none, or a program that was not compiled
CRASH = "crash"
HANG = "hang"
REFUSED = "refused"
SKIP = "skip"  # the database, or eager itself, has nothing to compare
HARNESS = "harness"  # the harness itself went wrong

STATUSES = (PASS, VALUE, META, MISSED, INTERNAL, CRASH, HANG, REFUSED, SKIP, HARNESS)


class Failure(Exception):
    """A difference from eager. `kind` is a short word, `detail` a sentence."""

    def __init__(self, status: str, kind: str, detail: str = ""):
        super().__init__(f"{status}/{kind}: {detail}")
        self.status = status
        self.kind = kind
        self.detail = str(detail)[:600]


class Skip(Exception):
    """There is nothing to compare."""


def describe(error: BaseException, length: int = 400) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:length]
