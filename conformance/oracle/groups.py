"""The groups of cases, one file each."""

from dataclasses import dataclass
from typing import Callable

import special_cases
from level0 import OPS as LEVEL0

OPS = {**LEVEL0}


@dataclass
class Group:
    name: str
    level: int
    cases: Callable
    method: str = "loops over mpmath numbers of 50 digits, rounded once at the end; the inputs are exact float64"
    suite: str = "2026.11"
    date: str = "2026-11-28"

    def run(self, op, case, ins):
        options = {key: value for key, value in case.get("profile", {}).items() if key in case.get("options", ())}
        return OPS[op](**ins, **options)


GROUPS = {group.name: group for group in (
    Group("sticks", 0, special_cases.sticks),
    Group("polya_gamma", 0, special_cases.polya_gamma),
)}
