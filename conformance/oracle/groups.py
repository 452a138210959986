"""The groups of cases, one file each."""

from collections.abc import Callable
from dataclasses import dataclass

import network
import network_cases
import special_cases
from level0 import OPS as LEVEL0

OPS = {**LEVEL0, **network.OPS}


def inverted(value):
    return [inverted(v) for v in value] if isinstance(value, list) else 1 / value


@dataclass
class Group:
    name: str
    level: int
    cases: Callable
    method: str = "loops over mpmath numbers of 50 digits, rounded once at the end; the inputs are exact float64"
    suite: str = "2026.11"
    date: str = "2026-11-28"

    def run(self, op, case, ins):
        profile = case.get("profile", {})
        options = {key: profile[key] for key in case.get("options", ())}
        if profile.get("gamma") != "scale":
            return OPS[op](**ins, **options)
        rates = {name: inverted(value) if name in ("b", "b0") else value for name, value in ins.items()}
        outs = OPS[op](**rates, **options)
        return {name: inverted(value) if name == "b" else value for name, value in outs.items()}


GROUPS = {group.name: group for group in (
    Group("sticks", 0, special_cases.sticks),
    Group("polya_gamma", 0, special_cases.polya_gamma),
    Group("expectations", 1, network_cases.moments),
    Group("updates", 2, network_cases.factors),
    Group("bound", 3, network_cases.bound),
    Group("sweeps", 4, network_cases.trajectories),
)}
