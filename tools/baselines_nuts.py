"""NUTS on iris at the paper's setting, four chains: results/baselines_nuts.json.

    python tools/baselines_nuts.py [--jobs 2] [--checkpoint FILE]       about 20 minutes of one core

100 training rows, K = 20 experts, h = 2, the paper's priors, 800 + 64 transitions of each chain, explicit latent vectors.
The seconds are processor time, of one thread in each process, so that other work on the machine does not count. With a checkpoint file
the run can be interrupted, and goes on where it was; the draws depend neither on that nor on the number of processes.
"""
import argparse
import datetime
import json
import os
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTING = {"n_experts": 20, "n_chains": 4, "n_warmup": 800, "n_draws": 64, "target": "explicit", "init": "cavi", "rng": 0}


def processor_seconds():
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed_draws(checkpoint, *data, **options):
    """sample_posterior with a line of progress now and then; (draws, processor seconds over all interruptions)."""
    from cmn_literate.roads.posterior import sample_posterior

    file = Path(f"{checkpoint}.seconds")
    before = json.loads(file.read_text()) if checkpoint and file.exists() else 0.0
    began, shown = processor_seconds(), [time.monotonic()]

    def callback(done, value):
        if time.monotonic() - shown[0] > 30:
            shown[0] = time.monotonic()
            print(f"{done} transitions, log density {value:.1f}", file=sys.stderr, flush=True)

    try:
        draws = sample_posterior(*data, callback=callback, checkpoint=checkpoint, **options)
    finally:
        seconds = before + processor_seconds() - began
        if checkpoint:
            file.write_text(json.dumps(seconds))
    return draws, seconds


def milliseconds(function, repeats=200):
    """The best time of one call."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return round(1000 * best, 3)


def gradient_times(X, y, u):
    """What a gradient of each target costs, at the same place."""
    import numpy as np

    from cmn_literate.engineering.coordinates import Shapes
    from cmn_literate.roads.posterior import posterior_target
    from cmn_literate.network.simulate import Priors

    shapes, times = Shapes(20, 2, 3, X.shape[1]), {}
    for name, target, nodes in (("explicit", "explicit", None), ("marginal, 20 x 20 nodes", "marginal", None), ("marginal, 8 x 8 nodes", "marginal", 8)):
        density, n_eps = posterior_target(X, y, shapes, Priors(), target, nodes)
        q = np.concatenate([u, np.zeros(n_eps)])
        times[name] = milliseconds(lambda: density(q))
    return times


def run(checkpoint=None, jobs=1):
    """The run and its numbers."""
    import numpy as np

    from cmn_literate.use.classifier import column_scale
    from cmn_literate.use.datasets import load, stratified_split
    from cmn_literate.roads.diagnostics import bfmi, draw_log_probs, ess_bulk, ess_tail, split_rhat
    from cmn_literate.engineering.coordinates import Shapes, to_white
    from cmn_literate.use.metrics import accuracy, expected_calibration_error, log_predictive_density
    from cmn_literate.network.simulate import Priors

    data = load("iris")
    train, test = stratified_split(data.y, 100, 50, np.random.default_rng(0))
    mean, scale = column_scale(data.X[train])
    Z = (data.X - mean) / scale
    draws, took = timed_draws(checkpoint, Z[train], data.y[train], n_jobs=jobs, **SETTING)
    stats, lead = draws.stats, draws.log_joint.shape
    p = np.exp(np.stack(list(draw_log_probs(draws, Z[test])))).reshape(*lead, len(test), 3)
    forecast = p.mean((0, 1))
    log_p, y = np.log(forecast), data.y[test]
    free = p[..., :2].reshape(*lead, -1)                                     # the third probability follows from two
    rhat, bulk, tail = split_rhat(free), ess_bulk(free), ess_tail(free)
    digits = lambda value, n=4: float(f"{float(value):.{n}g}")
    return {
        "n_train": len(train), "n_test": len(test), "seconds": round(took), "draws": int(np.prod(lead)),
        "divergent": int(stats["divergent"].sum()), "at_max_depth": int((stats["depth"] >= 10).sum()),
        "gradients_per_draw": digits(stats["n_leapfrog"].mean()), "accept": digits(stats["accept"].mean()),
        "step": [digits(v, 3) for v in stats["step"][:, 0]], "bfmi": [digits(v, 3) for v in bfmi(stats["energy"])],
        "log_density": {"rhat": digits(split_rhat(draws.log_joint)), "ess_bulk": digits(ess_bulk(draws.log_joint)),
                        "ess_tail": digits(ess_tail(draws.log_joint))},
        "probabilities": {"rhat_median": digits(np.median(rhat)), "rhat_max": digits(rhat.max()),
                          "ess_bulk_median": digits(np.median(bulk)), "ess_bulk_min": digits(bulk.min()),
                          "ess_tail_median": digits(np.median(tail)), "ess_tail_min": digits(tail.min()),
                          "ess_per_second_median": digits(np.median(bulk) / took, 3), "ess_per_second_min": digits(bulk.min() / took, 3)},
        "accuracy": digits(accuracy(y, forecast)), "lpd": digits(log_predictive_density(y, log_p, log=True)),
        "ece": digits(expected_calibration_error(y, forecast)),
        "gradient_ms": gradient_times(Z[train], data.y[train], to_white(draws.phi[0, -1], Shapes(20, 2, 3, 4), Priors())),
    }


def main():
    from cmn_literate import __version__
    from cmn_literate.use.datasets import FILES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--checkpoint", metavar="FILE")
    result = run(**vars(parser.parse_args()))
    record = {
        "what": "NUTS on iris, 100 training rows, K = 20, the paper's priors, 4 chains x (800 + 64); processor seconds",
        "command": "python tools/baselines_nuts.py --jobs 2", "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"cmn_literate": __version__, "python": platform.python_version(),
                     **{package: version(package) for package in ("numpy", "scipy")}},
        "sha256": {"iris": FILES["iris"].sha256}, "setting": SETTING, **result}
    file = ROOT / "results" / "baselines_nuts.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(part, file)
    print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
