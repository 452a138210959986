"""The groups of cases, one file each."""

from collections.abc import Callable
from dataclasses import dataclass

import choice_cases
import deep
import deep_cases
import integral_cases
import integrals
import large_cases
import lean_cases
import network
import network_cases
import outputs
import outputs_cases
import scale_cases
import shared_cases
import special_cases
from level0 import OPS as LEVEL0
from measure import BITS, flat, sensitivity, slack, tolerance
from mpmath import mp, mpf

OPS, SHORTCUTS = {**LEVEL0, **network.OPS, **integrals.OPS, **deep.OPS, **outputs.OPS}, {**integrals.SHORTCUTS, **deep.SHORTCUTS, **outputs.SHORTCUTS}

HALVED = "trapezoids over mpmath numbers of 16 digits, the step halved until two results agree to {}, and halving squares the error"
SLACK = ("an integral may be off by what a good rule leaves: a thousandth of the distance to the nearest shortcut, the means put in place of "
         "distributions or the like, within 1e-12 and 1e-6 (float32: within 1e-6 and 1e-3), is added to atol")


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
        return self.apply(OPS[op], profile, ins, options)

    @staticmethod
    def apply(function, profile, ins, options):
        if profile.get("gamma") != "scale":
            return function(**ins, **options)
        rates = {name: inverted(value) if name in ("b", "b0") else value for name, value in ins.items()}
        outs = function(**rates, **options)
        return {name: inverted(value) if name == "b" else value for name, value in outs.items()}

    def fixed_point(self, case, ins):
        """(outs, tol, kappa) of converge; the bound may be off by what is gained after a residual of 1e-7 (float32: 1e-4)."""
        early, profile = {"f64": mpf(10) ** -7, "f32": mpf(10) ** -4}, case.get("profile", {})
        told, model = {key: profile[key] for key in case.get("options", ())}, next((model for model in (deep, outputs) if case["op"] in model.OPS), network)
        choices = {key: value for key, value in told.items() if key not in ("order", "inner")}
        with mp.workprec(80):
            s, _, passed = model.converged({**ins, **choices}, mpf(10) ** -10, early.values(), **{key: told[key] for key in ("order", "inner") if key in told})
        outs = {"elbo": model.elbo(s), "residual": mpf(0)}
        s = {name: value for name, value in s.items() if name not in choices}
        bound = lambda **q: {"elbo": model.elbo({**q, **choices})}
        changes = sensitivity(bound, s, {"elbo": outs["elbo"]}, case["id"])["elbo"]
        tol, kappa = {}, {"residual": mpf(0)}
        for dtype in BITS:
            rtol, atol, kappa["elbo"] = tolerance([outs["elbo"]], changes, [mpf(0)], dtype)
            tol[dtype] = {"elbo": (rtol, atol + 2 * abs(passed[early[dtype]] - outs["elbo"])),
                          "residual": (mpf(0), mpf(10) ** (-8 if dtype == "f64" else -3))}
        return outs, tol, kappa

    def tolerances_of_integral(self, op, case, ins, outs):
        """Rounding, as everywhere, measured with a coarse rule where a fine one takes long; and some room for the rule."""
        profile, tol, kappa = case.get("profile", {}), {}, {}
        told = {key: profile[key] for key in case.get("options", ())}
        options, bits, base = told, 60, outs
        if op in (*integrals.OPS, *outputs.COARSE):
            options, bits = {**told, "coarse": True}, 24
            base = self.apply(OPS[op], profile, ins, options)
        changes = sensitivity(lambda **q: self.apply(OPS[op], profile, q, options), ins, base, case["id"], bits)
        others = [self.apply(shortcut, profile, ins, told) for shortcut in SHORTCUTS[op]]
        for dtype in BITS:
            tol[dtype] = {}
            for name, value in outs.items():
                values = flat(value)
                rtol, atol, kappa[name] = tolerance(values, changes[name], [0 * x for x in values], dtype)
                tol[dtype][name] = rtol, atol + slack(values, [flat(other[name]) for other in others], dtype)
        return tol, kappa


FEWER = "loops over mpmath numbers of 30 digits, rounded once at the end; condition numbers from three moves instead of six; the inputs are exact float64"
PAIRS = ("loops over mpmath numbers of 50 digits, rounded once at the end; under tilts = joint of 20 digits (condition numbers from three moves), until tilts and coefficients change by less than 1e-16, "
         "and 1e-9 of the largest entry (float32: 1e-4) is added to atol; the inputs are exact float64")
SETTLED = ("{}sweeps over mpmath numbers of 24 digits until the residual is below 1e-10; the bound may be off by twice what is gained after "
           "a residual of 1e-7 (float32: 1e-4), besides rounding; a residual that should be 0 may be 1e-8 (float32: 1e-3)")
NEWER = {"suite": "2026.12", "date": "2026-11-30"}
SHARED = {"suite": "2026.12.1", "date": "2026-12-01"}       # an optional suite: the mean that all experts share
SCALES = {"suite": "2026.12.4", "date": "2026-12-01"}       # an optional suite: learned scales
LEAN = {"suite": "2026.12.2", "date": "2026-12-01"}         # an optional suite: leaner posteriors
DEEP = {"suite": "2026.12.3", "date": "2026-12-01"}         # an optional suite: deeper networks
OUT = {"suite": "2026.12.4", "date": "2026-12-01"}          # an optional suite: other outputs

GROUPS = {group.name: group for group in (
    Group("sticks", 0, special_cases.sticks, **NEWER),
    Group("polya_gamma", 0, special_cases.polya_gamma, **NEWER),
    Group("sigmoid_means", 0, integral_cases.sigmoid_means, **NEWER, method=f"trapezoids over mpmath numbers of 50 digits; {SLACK}"),
    Group("expectations", 1, network_cases.moments),
    Group("updates", 2, network_cases.factors, **NEWER),
    Group("bound", 3, network_cases.bound),
    Group("sweeps", 4, network_cases.trajectories),
    Group("fixed_points", 5, network_cases.fixed_points, method=SETTLED.format("canonical ")),
    Group("choices_expectations", 1, choice_cases.expectations, **NEWER),
    Group("choices_updates", 2, choice_cases.updates, method=PAIRS, **NEWER),
    Group("choices_bound", 3, choice_cases.bound, **NEWER),
    Group("choices_sweeps", 4, choice_cases.trajectories, method=PAIRS, **NEWER),
    Group("choices_residuals", 5, choice_cases.residuals, **NEWER),
    Group("choices_fixed_points", 5, choice_cases.fixed_points, method=SETTLED.format(""), **NEWER),
    Group("large_sticks", 0, large_cases.sticks, method=FEWER, **NEWER),
    Group("large_expectations", 1, large_cases.expectations, method=FEWER, **NEWER),
    Group("large_updates", 2, large_cases.updates, method=FEWER, **NEWER),
    Group("large_bound", 3, large_cases.bound, method=FEWER, **NEWER),
    Group("large_sweeps", 4, large_cases.trajectories, method=FEWER, **NEWER),
    Group("predictions", 6, integral_cases.predictions, **NEWER, method=f"{HALVED.format('1e-6')}; {SLACK}"),
    Group("choices_predictions", 6, choice_cases.predictions, **NEWER, method=f"{HALVED.format('1e-6')}; {SLACK}"),
    Group("shared_updates", 2, shared_cases.updates, **SHARED),
    Group("shared_bound", 3, shared_cases.bound, **SHARED),
    Group("shared_sweeps", 4, shared_cases.trajectories, **SHARED),
    Group("shared_fixed_points", 5, shared_cases.fixed_points, method=SETTLED.format("canonical "), **SHARED),
    Group("shared_forecasts", 6, shared_cases.forecasts, **SHARED, method=f"sweeps over mpmath numbers of 50 digits, then {HALVED.format('1e-6')}; {SLACK}"),
    Group("lean_updates", 2, lean_cases.updates, **LEAN),
    Group("lean_bound", 3, lean_cases.bound, **LEAN),
    Group("lean_sweeps", 4, lean_cases.trajectories, **LEAN),
    Group("lean_fixed_points", 5, lean_cases.fixed_points, method=SETTLED.format("canonical "), **LEAN),
    Group("lean_forecasts", 6, lean_cases.forecasts, **LEAN, method=f"sweeps over mpmath numbers of 50 digits, then {HALVED.format('1e-6')}; {SLACK}"),
    Group("deep_moments", 1, deep_cases.moments, **DEEP),
    Group("deep_updates", 2, deep_cases.updates, **DEEP),
    Group("deep_bound", 3, deep_cases.bound, **DEEP),
    Group("deep_sweeps", 4, deep_cases.trajectories, **DEEP),
    Group("deep_fixed_points", 5, deep_cases.fixed_points, method=SETTLED.format("canonical "), **DEEP),
    Group("deep_forecasts", 6, deep_cases.forecasts, **DEEP, method=f"loops and trapezoids over mpmath numbers of 50 digits; {SLACK}"),
    Group("out_special", 0, outputs_cases.special, **OUT),
    Group("out_updates", 2, outputs_cases.updates, **OUT),
    Group("out_bound", 3, outputs_cases.bound, **OUT),
    Group("out_sweeps", 4, outputs_cases.trajectories, **OUT),
    Group("out_fixed_points", 5, outputs_cases.fixed_points, method=SETTLED.format(""), **OUT),
    Group("out_forecasts", 6, outputs_cases.forecasts, **OUT, method=f"loops over mpmath numbers of 50 digits, integrals: {HALVED.format('1e-5')}; {SLACK}"),
    Group("scales_updates", 2, scale_cases.updates, **SCALES),
    Group("scales_bound", 3, scale_cases.bound, **SCALES),
    Group("scales_sweeps", 4, scale_cases.trajectories, **SCALES),
    Group("scales_fixed_points", 5, scale_cases.fixed_points, method=SETTLED.format("canonical "), **SCALES),
    Group("scales_forecasts", 6, scale_cases.forecasts, **SCALES, method=f"sweeps over mpmath numbers of 50 digits, then {HALVED.format('1e-6')}; {SLACK}"),
    Group("likelihood", 6, integral_cases.likelihoods, **NEWER, method=f"{HALVED.format('1e-7')}; {SLACK}"),
)}
