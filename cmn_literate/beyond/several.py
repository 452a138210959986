# Tangled from book/beyond/several.ipynb by tools/tangle.py; edit the notebook, not this file.
"""Several ascents, one forecast

Four ascents, two of each of two models, can be one fit, with one bound, one file and one
checkpoint. It may end by its last gain: rules that look further back do no better. Where rows are
many it begins with a few that weigh as much. On labels that mean nothing it falls behind ridge by
less than a third of what the paper's settings do, but it falls behind.
"""

__all__ = ["kinds_of", "member_settings", "SeveralFit", "forecast_several", "part_of", "Member",
           "most_sweeps", "several_work", "pack_several", "SEVERAL"]


# book/beyond/several.ipynb, cell several-02
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cmn_literate.beyond.shared_means import SHARED_MEANS, Higher, HigherAscent, HigherFit
from cmn_literate.checks import check_count
from cmn_literate.engineering.chains import spawn
from cmn_literate.engineering.runs import (
    Ascent, Run, Work, drive, has_converged, predict_factors)
from cmn_literate.learners import Learner, find_learner, learner_options
from cmn_literate.network.latents import Parameters
from cmn_literate.storage import generator_state
from cmn_literate.use.uncertainty import average_log_proba


# book/beyond/several.ipynb, cell several-06
def kinds_of(settings):
    """Methods of the members that the estimator's options ask for, plain ones first.
    [eq-several-average]   -> tuple of names;  ValueError names the option"""
    o = learner_options(settings)
    plain, shared = (check_count(o[name], name, 0) for name in ("plain", "shared"))
    if not plain + shared:
        raise ValueError("plain, shared: expected one ascent or more in all, got 0")
    return ("cavi",) * plain + ("shared-means",) * shared


def member_settings(settings, kind):
    """The settings of a member: its method, and of the options what it knows.
    [eq-several-average]   -> a copy"""
    one, o = copy(settings), learner_options(settings)
    known = set(find_learner(kind).options) - {"checkpoint"}
    one.method, one.method_options = kind, {name: o[name] for name in known}
    return one


# book/beyond/several.ipynb, cell several-07
@dataclass(frozen=True)
class SeveralFit:
    """Fits of the same rows whose forecasts are averaged.  [eq-several-bound]

    members  tuple of Fit, HigherFit.  In the mean of their bounds that of a member that
    has ended stays where it is.
    """
    members: tuple

    @property
    def n_sweeps(self):
        """The most that a member made."""
        return max(one.n_sweeps for one in self.members)

    @property
    def converged(self):
        """Whether all have."""
        return all(one.converged for one in self.members)

    @property
    def elbo(self):
        """The mean bound after every sweep (n_sweeps,).  [eq-several-bound]"""
        traces = (np.pad(one.elbo, (0, self.n_sweeps - one.n_sweeps), mode="edge")
                  for one in self.members)
        return np.mean(list(traces), axis=0)


def forecast_several(result, Z):
    """Log of the mean of the members' forecasts.  [eq-several-average]

    result SeveralFit, Z (n,d) -> (n,L) nats
    """
    return average_log_proba([predict_factors(one, Z) for one in result.members])


# book/beyond/several.ipynb, cell several-15
def part_of(weight, rows, rng):
    """Some of the rows, drawn without replacement, which weigh as much as all.
    [eq-several-part]   weight (N,) > 0, rng Generator -> indices (rows,), weights"""
    stay = np.sort(rng.permutation(len(weight))[:rows])
    return stay, weight[stay] * (weight.sum() / weight[stay].sum())


# book/beyond/several.ipynb, cell several-18
class Member(NamedTuple):
    """State of one ascent among several.  [eq-several-bound]

    place  which of them;  state  Ascent or HigherAscent
    """
    place: int
    state: tuple


class _Step(NamedTuple):
    """A sweep of whichever member it is given."""
    steps: tuple

    def __call__(self, member, t):
        state, row = self.steps[member.place](member.state, t)
        return member._replace(state=state), row


def _ended(member):
    return has_converged(member.state)


def _climb(begin, Z, y, weight, rows, rng):
    """The global factors at the end of a climb on a part of the rows."""
    stay, weight = part_of(weight, rows, rng)
    work = begin(Z[stay], y[stay], weight=weight)
    run = drive(work)
    if run.reason == "interrupted":
        raise KeyboardInterrupt
    return work.finish(run).parameters


# book/beyond/several.ipynb, cell several-19
def most_sweeps(settings, rows):
    """How many sweeps over so many rows: max_sweeps, or fewer where each row would be
    visited too often, but never less than 20.  [eq-several-visits]"""
    visits = check_count(learner_options(settings)["visits"], "visits")
    return min(settings.max_sweeps, max(20, visits // rows))


def several_work(Z, y, n_classes, settings, rng, weight=None):
    """All members as the chains of one Work, which finishes as a SeveralFit.
    [eq-several-average, eq-several-part, eq-several-visits]

    Z (N,d), y (N,) in 0..L-1, weight (N,) or None; settings: those of the members, and
    method_options;  rng Generator, of which each member has a child
    """
    o, origin, kinds = learner_options(settings), generator_state(rng), kinds_of(settings)
    few = len(y) if o["first_rows"] is None else check_count(o["first_rows"], "first_rows", 2)
    total, short = most_sweeps(settings, len(y)), copy(settings)
    short.max_sweeps = most_sweeps(settings, 2 * few)
    each = [partial(find_learner(kind).begin, n_classes=n_classes, rng=child,
                    settings=member_settings(short, kind))
            for kind, child in zip(kinds, spawn(rng, len(kinds)))]
    works = [begin(Z, y, weight=weight) for begin in each]
    shares = np.ones(len(y)) if weight is None else weight

    def start():
        states = [state for work in works for state in work.start()]
        if len(y) >= 4 * few:
            ends = (_climb(begin, Z, y, shares, few, begin.keywords["rng"]) for begin in each)
            states = [s._replace(parameters=p) for s, p in zip(states, ends)]
        return list(map(Member, range(len(states)), states))

    def finish(run):
        parts = zip(works, run.states, run.done, run.kept)
        return SeveralFit(tuple(work.finish(Run([m.state], [done], [kept], run.reason))
                                for work, m, done, kept in parts))

    problem = ("several", kinds, few, *(work.problem for work in works))
    return Work(start, _Step(tuple(work.step for work in works)), total, finish, problem,
                origin, lambda states, c: states[c].state.bound, _ended, every=100,
                kinds=(Member, Ascent, HigherAscent, Parameters, Higher))


# book/beyond/several.ipynb, cell several-20
def pack_several(result):
    """Arrays of all members, each name after the number of its member.
    [eq-several-average]   -> dict"""
    kinds = ["shared-means" if isinstance(one, HigherFit) else "cavi"
             for one in result.members]
    return {f"{i}.{name}": array
            for i, (kind, one) in enumerate(zip(kinds, result.members))
            for name, array in find_learner(kind).pack(one).items()}


def _unpack(arrays, settings):
    members = []
    for i, kind in enumerate(kinds_of(settings)):
        mine = {name.removeprefix(f"{i}."): array for name, array in arrays.items()
                if name.startswith(f"{i}.")}
        members.append(find_learner(kind).unpack(mine, member_settings(settings, kind)))
    return SeveralFit(tuple(members))


SEVERAL = Learner(
    several_work, forecast_several, pack_several, _unpack,
    options={**SHARED_MEANS.options, "plain": 2, "shared": 2,
             "first_rows": 5000, "visits": 1_000_000},
    steps=lambda settings: settings.max_sweeps, objective="ELBO", step="sweep",
    advice="raise max_sweeps, tol or the option visits", weights="any",
    copies=lambda settings: len(kinds_of(settings)))
