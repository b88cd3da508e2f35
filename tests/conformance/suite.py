"""All cases, and how one is run."""

from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from tests.conformance import databases
from tests.conformance.calls import Case, Settings
from tests.conformance.models import run as models
from tests.conformance.modules import run_module, run_optimizer
from tests.conformance.operators import run_operator
from tests.conformance.target import Target
from tests.conformance.verdict import HARNESS, PASS, REFUSED, SKIP, Failure, Skip, describe

GROUPS = ("operators", "modules", "optimizers", "models")


@dataclass(frozen=True)
class Result:
    """kind, detail: of what went wrong. compared: how many calls agreed with eager's.
    soft: differences that are no failures. seconds: of wall time."""

    id: str
    status: str
    kind: str = ""
    detail: str = ""
    compared: int = 0
    soft: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        return asdict(self)


def group_of(case_id: str) -> str:
    for prefix, group in (("module.", "modules"), ("optim.", "optimizers"), ("model.", "models")):
        if case_id.startswith(prefix):
            return group
    return "operators"


def list_cases(groups: tuple[str, ...] = GROUPS, full: bool = False) -> list[str]:
    cases = databases.list_cases(full) if set(groups) - {"models"} else []
    cases += models.list_cases()
    return [case for case in cases if group_of(case) in groups]


RUNNERS = {
    "operators": run_operator,
    "modules": run_module,
    "optimizers": run_optimizer,
    "models": models.run_model,
}


def run_case(target: Target, case_id: str, settings: Settings) -> Result:
    """Never raises, but for what ends the process. A failure outweighs a refusal."""
    case = Case(case_id, target, settings)
    torch.set_default_dtype(torch.float32)
    try:
        RUNNERS[group_of(case_id)](case)
    except Failure as f:
        return Result(case_id, f.status, f.kind, f.detail, case.compared)
    except Skip as reason:
        return Result(case_id, SKIP, "no_samples", str(reason))
    except Exception as error:
        return Result(case_id, HARNESS, type(error).__name__, describe(error, 800))
    if case.refusals:
        detail = case.refusals[0]
        return Result(case_id, REFUSED, detail.split(":")[0], detail, case.compared)
    if not case.compared:
        return Result(case_id, SKIP, "nothing_to_compare")
    return Result(case_id, PASS, compared=case.compared, soft=sorted(case.soft))
