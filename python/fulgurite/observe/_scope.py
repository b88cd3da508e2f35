"""Where a record of the structured log belongs."""

import dataclasses
import itertools

_FIRST_OWN_FRAME = 10_000  # Dynamo numbers the frames of a process from 0
_own_frames = itertools.count(_FIRST_OWN_FRAME)


@dataclasses.dataclass(frozen=True)
class LogScope:
    """One value that is handed on to whatever writes records, also later and in other threads.

    frame, frame_compile: the two numbers of a compile id, which tlparse shows as [frame/compile].
    attempt: of Dynamo, which starts anew at a graph break.
    graph, chunk, specialisation: numbers from 0, of a graph of the frame, of a piece of the graph,
      and of a compilation of the piece; None for records of the whole.
    """

    frame: int
    frame_compile: int = 0
    attempt: int = 0
    graph: int | None = 0
    chunk: int | None = None
    specialisation: int | None = None

    def within(self, **numbers):
        """The scope of a part of this: `scope.within(chunk=1)`."""
        return dataclasses.replace(self, **numbers)

    def name(self, item):
        """What the artifact `item` is called: fulgurite_g00_c00_s00_item."""
        numbers = {"g": self.graph, "c": self.chunk, "s": self.specialisation}
        parts = [f"{letter}{n:02d}" for letter, n in numbers.items() if n is not None]
        return "_".join(["fulgurite", *parts, item])


def own_scope():
    """Of a function that is compiled without Dynamo: a frame number that Dynamo does not use."""
    return LogScope(next(_own_frames), chunk=0)
