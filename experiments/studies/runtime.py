"""Seconds per step of every method along d, K, h and N, and where a sweep of CAVI spends them (ten minutes on a quiet machine).

Times are CPU seconds of one process with one BLAS thread: the median over rounds in which the methods take turns, so that a slow minute of
the machine meets all of them; and that in three passes over all points, so that it does not decide a point.
"""

import sys
import time
import warnings
from typing import NamedTuple

import numpy as np

BASE = {"N": 400, "d": 2, "K": 10, "h": 4, "L": 5}
AXES = {"d": (2, 4, 8, 16, 32, 64, 128), "K": (5, 10, 20, 40, 80, 160), "h": (1, 2, 4, 8, 16, 32), "h alone": (1, 2, 4, 8, 16, 32),
        "N": (100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)}
METHODS = ("cavi", "mle-network", "mle-exact", "bbvi", "gibbs", "explicit")
NODES, PARTICLES = 64, 8                                # of the exact likelihood; of black-box VI
SECONDS, ROUNDS, PASSES = 1.2, (3, 40), 3               # per point and pass; fewest and most rounds; passes over all points
PROFILES = ("base", "d=16", "d=64", "K=80", "h=1,L=2", "h=16,L=17", "N=25600")
# steps of the runs that are followed to the end: the paper's 500 and 20,000, and fewer where a step is dear
STEPS = {"cavi": 500, "mle-network": 20_000, "mle-exact": 20_000, "bbvi": 20_000}
FAR = {"base": 0, "d": 16, "K": 40, "h": 8, "N": 1600}   # one point on each axis, and the base point
RUNS = [(method, axis, seed) for seed in range(3) for axis in FAR for method in ("cavi", "mle-network")]
RUNS += [("mle-exact", "base", 0), ("bbvi", "base", 0)]
TIMED = ("seconds", "pieces", "rounds", "sweeps")


class Cell(NamedTuple):
    """One measurement: a pass over the methods at a point, a point (three passes), a profile of a sweep, or a run to the end."""
    part: str
    axis: str                       # of a profile: what is changed of the base point
    value: int | None = None
    method: str | None = None
    turn: int | None = None         # which pass; of a run the seed


def plan():
    return [*(Cell("profile", change) for change in PROFILES), *(Cell("point", axis, v) for axis, values in AXES.items() for v in values),
            *(Cell("run", axis, FAR[axis], method, seed) for method, axis, seed in RUNS)]


def needs(cell):
    """The passes of a point; those of many points take turns."""
    return [cell._replace(part="pass", turn=turn) for turn in range(PASSES)] if cell.part == "point" else []


def sizes_at(axis, value):
    """The base point with one number changed; along h the classes follow, L = h + 1, as in the paper."""
    s = dict(BASE)
    if axis != "base":
        s[axis.split()[0]] = value
    if axis == "h":
        s["L"] = value + 1
    return s


def problem(N, d, K, h, L, seed=0):
    """Inputs and labels drawn from a conditional mixture network whose classes and experts are about equally frequent."""
    from cmn_literate.network.simulate import Priors, sample_data, sample_theta

    rng = np.random.default_rng(seed)
    theta = sample_theta(Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.5, sigma1=1.5), K, h, L, d, rng)
    theta.beta0[:, -1] = -np.log(np.arange(K - 1, 0, -1.0))
    theta.beta1[:, -1] = -np.log(np.arange(L - 1, 0, -1.0))
    X = rng.normal(size=(N, d))
    y = sample_data(theta, X, rng).y
    return X, np.where(np.arange(N) < L, np.arange(N) % L, y)               # every class is there


def nodes_for(shapes):
    """About as many nodes whatever the dimension of the integral."""
    from cmn_literate.engineering.nodes import latent_nodes

    return latent_nodes(shapes, round(NODES ** (1 / min(shapes.rank, 2))) if shapes.rank < 3 else NODES, rng=0)


def stepper(method, sizes):
    """A function that does one step of a running fit."""
    from cmn_literate.engineering.sums import block_sweep, make_blocks
    from cmn_literate.engineering.starts import complete_start, init_parameters
    from cmn_literate.engineering.coordinates import Shapes, pack, to_white
    from cmn_literate.engineering.gradients import explicit_value_and_grad
    from cmn_literate.roads.optimizers import adabelief_init, adabelief_step
    from cmn_literate.network.simulate import Priors, sample_theta

    (N, d, K, h, L), priors, rng = sizes.values(), Priors(), np.random.default_rng(0)
    X = problem(**sizes)[0]
    y = rng.permutation(N) % L         # only the number of sticks that a row reaches counts: all classes equally often
    shapes = Shapes(K, h, L, d)
    if method == "cavi":
        state = [make_blocks(X, y, K, h, L), init_parameters(X, y, K, h, L, priors, rng)]

        def step():
            state[:] = block_sweep(*state, priors)[:2]
        return step
    if method == "gibbs":
        from cmn_literate.roads.gibbs import gibbs_sweep, start_state

        state = [start_state(X, y, (K, h, L), Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.5, sigma1=1.5), rng)]

        def step():
            state[0] = gibbs_sweep(state[0], X, y, priors, rng)
        return step
    if method == "explicit":
        theta = sample_theta(Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.5, sigma1=1.5), *shapes, rng)
        q = np.append(to_white(pack(theta), shapes, priors), rng.normal(size=N * h))
        return lambda: explicit_value_and_grad(q, X, y, shapes, priors)
    if method == "bbvi":
        from cmn_literate.roads.bbvi import bound_and_grad
        from cmn_literate.roads.particles import free_of, pack_free, unpack_free
        from cmn_literate.engineering.gamma_draws import draw_noise
        from cmn_literate.engineering.sums import make_rows

        rows, x = make_rows(X, y, L), pack_free(free_of(complete_start(X, y, K, h, L, priors, rng)))

        def value_and_grad(x):
            free = unpack_free(x, shapes, N)
            value, slopes = bound_and_grad(free, draw_noise(free, PARTICLES, rng), rows, priors, "elbo")
            return value, pack_free(slopes)
    else:
        from cmn_literate.roads.mle import mle_objective, mle_start

        objective = method.removeprefix("mle-")
        x = mle_start(shapes, rng)
        value_and_grad = mle_objective(X, y, shapes, objective, None, nodes_for(shapes) if objective == "exact" else None)
    run = [x, adabelief_init(x)]

    def step():
        slope = value_and_grad(run[0])[1]
        update, run[1] = adabelief_step(-slope, run[1], lr=1e-4)
        run[0] = run[0] + update
    return step


def median_times(functions, seconds=SECONDS, rounds=ROUNDS, clock=time.process_time):
    """Median seconds per call of each function (name -> function), which take turns; and the number of rounds.

    A function that is quick is called several times in its turn, and its mean is one measurement."""
    calls, times = {}, {name: [] for name in functions}
    for name, function in functions.items():
        function()                                                         # warm
        start = clock()
        function()
        calls[name] = max(1, min(200, round(0.01 / max(clock() - start, 1e-6))))
    began = clock()
    for turn in range(rounds[1]):
        if turn >= rounds[0] and clock() - began > seconds:
            break
        for name, function in functions.items():
            start = clock()
            for _ in range(calls[name]):
                function()
            times[name].append((clock() - start) / calls[name])
    return {name: float(f"{np.median(t):.4g}") for name, t in times.items()}, len(times[name])


def merge(passes):
    """One point from its passes: smallest, median and largest time of each method."""
    times = {m: sorted(p["seconds"][m] for p in passes) for m in passes[0]["seconds"]}
    return {"rounds": sum(p["rounds"] for p in passes),
            "seconds": {m: [t[0], float(f"{np.median(t):.4g}"), t[-1]] for m, t in times.items()}}


def climb(method, axis, seed):
    """A fit, and how many steps a fitted decay, the rule that the paper describes, finds for its first fifth, its first half and all of it.

    A trace that is noisy by more than a nat has no first step within 1 nat of the end."""
    from cmn_literate.roads.bbvi import fit_bbvi
    from cmn_literate.engineering.fit import fit
    from cmn_literate.use.metrics import decay_steps, steps_within
    from cmn_literate.roads.mle import fit_mle

    sizes, n = sizes_at(axis, FAR[axis]), STEPS[method]
    X, y = problem(**sizes, seed=seed)
    args = dict(n_experts=sizes["K"], latent_dim=sizes["h"], n_classes=sizes["L"], rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)                     # separated rows: the chapter on MLE
        if method == "cavi":
            trace = fit(X, y, **args, max_sweeps=n, tol=-np.inf).elbo
        elif method == "bbvi":
            trace = fit_bbvi(X, y, **args, n_particles=PARTICLES, n_steps=n).elbo
        else:
            few = NODES if method == "mle-exact" else None
            trace = fit_mle(X, y, **args, objective=method.removeprefix("mle-"), n_nodes=few, n_steps=n).trace
    parts = [len(trace) // 5, len(trace) // 2, len(trace)]
    return {"steps": parts, "decay": [round(decay_steps(trace[:n]), 1) for n in parts],
            "within": None if method == "bbvi" else [steps_within(trace[:n], 1.0) for n in parts]}


# functions whose own time, without that of listed functions that they call, makes a piece; the others belong to their caller
PIECES = {"latent vectors: precision": ("engineering.sums", ("_latent_natural",)),
          "latent vectors: inverse": ("engineering.sums", ("spd_inverse_stacked",)),
          "latent vectors: moments": ("engineering.sums", ("latent_moments",)),
          "output tilts": ("engineering.sums", ("_tilt_rows",)),
          "gate": ("engineering.sums", ("gate_rows",)),
          "inputs: products of pairs": ("engineering.sums", ("outer_features",)),
          "expert scores": ("engineering.sums", ("_expert_rows",)),
          "responsibilities": ("engineering.sums", ("responsibilities",)),
          "sums over rows": ("engineering.sums", ("collect",)),
          "M-step": ("engineering.sums", ("mstep", "prepare")),
          "bound": ("engineering.sums", ("expected_log_joint",))}


class Stopwatch:
    """Own time of some functions of some modules while a with block runs.  seconds: name of piece -> CPU seconds."""

    def __init__(self, pieces, clock=time.process_time):
        self.seconds, self.stack, self.clock, self.kept = {name: 0.0 for name in pieces}, [], clock, []
        self.pieces, self.missing = pieces, []

    def wrap(self, piece, function):
        def timed(*args, **kwargs):
            start = self.clock()
            self.stack.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                whole, inner = self.clock() - start, self.stack.pop()
                self.seconds[piece] += whole - inner
                if self.stack:
                    self.stack[-1] += whole
        return timed

    def __enter__(self):
        import importlib

        for piece, (module, names) in self.pieces.items():
            home = importlib.import_module(f"cmn_literate.{module}")
            for name in names:
                if hasattr(home, name):
                    self.kept.append((home, name, getattr(home, name)))
                    setattr(home, name, self.wrap(piece, getattr(home, name)))
                else:
                    self.missing.append(name)
        return self

    def __exit__(self, *_):
        for home, name, function in reversed(self.kept):
            setattr(home, name, function)


def changed(text):
    """The base point with what the name of a profile changes.   -> (change, sizes)"""
    change = {} if text == "base" else {name: int(v) for name, v in (part.split("=") for part in text.split(","))}
    return change, {**BASE, **change}


def profile(sizes):
    """Mean CPU seconds of the pieces of a sweep, and of all of it."""
    step = stepper("cavi", sizes)
    for _ in range(3):
        step()
    n, start = 0, time.process_time()
    with Stopwatch(PIECES) as watch:
        while n < 10 or time.process_time() - start < 1.5:
            step()
            n += 1
    total = (time.process_time() - start) / n
    if watch.missing:
        print(f"not in the package any more, so counted with their callers: {watch.missing}", file=sys.stderr)
    pieces = {name: float(f"{s / n:.4g}") for name, s in watch.seconds.items()}
    return {"sweeps": n, "seconds": float(f"{total:.4g}"), "pieces": pieces}


def run(cell, records, data_home=None, models=None):
    if cell.part == "profile":
        change, sizes = changed(cell.axis)
        return {"setting": {"change": change, "sizes": sizes}, "metrics": profile(sizes)}
    if cell.part == "run":
        return {"setting": {"particles": PARTICLES, "nodes": NODES}, "metrics": climb(cell.method, cell.axis, cell.turn)}
    sizes = sizes_at(cell.axis, cell.value)
    setting = {"sizes": sizes, "particles": PARTICLES, "nodes": NODES}
    if cell.part == "point":
        return {"setting": setting, "metrics": merge([records[one]["metrics"] for one in needs(cell)])}
    seconds, rounds = median_times({method: stepper(method, sizes) for method in METHODS})
    return {"setting": setting, "metrics": {"rounds": rounds, "seconds": seconds}}
