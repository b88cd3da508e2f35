"""Results on disk, a line each: a run that was cut short goes on where it stopped."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.suite import Result


@dataclass
class Store:
    """path: the file. configuration: what the results depend on; a file of another is refused."""

    path: Path
    configuration: dict[str, Any]

    def open(self, fresh: bool) -> dict[str, Result]:
        """What is known so far, by case."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fresh or not self.path.exists():
            self.path.write_text(json.dumps({"configuration": self.configuration}) + "\n")
        head, *lines = self.path.read_text().splitlines()
        if json.loads(head) != {"configuration": self.configuration}:
            raise SystemExit(
                f"{self.path} holds results of another configuration: use --fresh or --out"
            )
        known = {}
        for line in lines:
            try:
                result = Result(**json.loads(line))
            except ValueError:
                continue  # cut off while it was written
            known[result.id] = result
        return known

    def add(self, result: Result) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(result.record()) + "\n")
