"""Time of the other roads' inner loops, as ratios to work in the same process.

    python benchmarks/roads.py          (one BLAS thread, float64)

Every function *_rows() yields lines to print.
"""
import os
import subprocess
import sys

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import time

import autograd.numpy as anp
import numpy as np
from autograd import grad
from sweep import PIECE, best_times, sweep_work

from cmn_literate.engineering import gradients
from cmn_literate.engineering.coordinates import Shapes, pack, to_white, unpack
from cmn_literate.engineering.gradients import class_log_probs, explicit_value_and_grad, likelihood_value_and_grad
from cmn_literate.roads.likelihood import explicit_log_joint, log_likelihood
from cmn_literate.engineering.nodes import latent_nodes
from cmn_literate.roads.mle import mle_objective, network_log_probs
from cmn_literate.roads.optimizers import maximize
from cmn_literate.network.simulate import Priors, sample_theta

N, D_IN, K = 400, 2, 10


def problem(L, K=K):
    """Sizes, parameters with moderate logits, inputs and labels: N=400, d=2, K=10, h=L-1."""
    rng, shapes = np.random.default_rng(0), Shapes(K, L - 1, L, D_IN)
    theta = sample_theta(Priors(v0=2.0, a0=4.0, b0=3.0, sigma0=1.5, sigma1=1.5), *shapes, rng)
    return shapes, theta, rng.normal(size=(N, D_IN)), rng.integers(L, size=N)


def log_sigmoid_pass(count):
    """A function that computes ln sigma(t) of so many numbers once, in pieces that stay in the cache."""
    t, out, part = 3 * np.random.default_rng(0).normal(size=count), np.empty(PIECE), np.empty(PIECE)

    def work():
        for start in range(0, count, PIECE):
            piece = t[start:start + PIECE]
            o, e = out[:piece.size], part[:piece.size]
            np.abs(piece, out=e)
            np.negative(e, out=e)
            np.exp(e, out=e)
            np.log1p(e, out=e)
            np.minimum(piece, 0, out=o)
            np.subtract(o, e, out=o)
    return work


def best_of_three(function):
    """Best CPU time of three calls: for what is too slow for best_times."""
    times = []
    for _ in range(3):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def likelihood_rows():
    """The exact likelihood: value and gradient, all classes, autograd; then the explicit joint against a CAVI sweep."""
    yield "exact likelihood, N=400 d=2 K=10; floor: one ln sigma for each of nodes x N x K x (L-1) numbers"
    yield (f"{'L':>3} {'nodes':>6} {'value+grad ms':>14} {'floor ms':>9} {'ratio':>6} {'all classes ms':>15} {'autograd ms':>12} "
           f"{'20000 steps s':>14}")
    for L, n_nodes in ((2, 32), (3, 20), (5, 64)):
        shapes, theta, X, y = problem(L)
        nodes, phi = latent_nodes(shapes, n_nodes, rng=0), pack(theta)
        automatic = grad(lambda p: anp.sum(log_likelihood(unpack(p, shapes), X, y, nodes)))
        ours, floor, classes = best_times([
            lambda: likelihood_value_and_grad(phi, X, y, shapes, nodes),
            log_sigmoid_pass(len(nodes.w) * N * K * (L - 1)), lambda: class_log_probs(theta, X, nodes)])
        slow = best_of_three(lambda: automatic(phi))
        yield (f"{L:>3} {len(nodes.w):>6} {ours * 1e3:>14.2f} {floor * 1e3:>9.2f} {ours / floor:>6.2f} {classes * 1e3:>15.2f} "
               f"{slow * 1e3:>12.1f} {ours * 20_000:>14.1f}")
    yield "explicit latents, N=400 d=2 K=10 h=L-1: value and gradient against one CAVI sweep"
    yield f"{'L':>3} {'value+grad ms':>14} {'sweep ms':>9} {'ratio':>6} {'autograd ms':>12}"
    for L in (2, 5):
        shapes, theta, X, y = problem(L)
        eps = np.random.default_rng(1).normal(size=N * (L - 1))
        q, priors = np.append(to_white(pack(theta), shapes, Priors()), eps), Priors()
        automatic = grad(explicit_log_joint)
        ours, sweep, slow = best_times([
            lambda: explicit_value_and_grad(q, X, y, shapes, priors), sweep_work(N, D_IN, K, L),
            lambda: automatic(q, X, y, shapes, priors)])
        yield f"{L:>3} {ours * 1e3:>14.2f} {sweep * 1e3:>9.2f} {ours / sweep:>6.2f} {slow * 1e3:>12.1f}"


def one_process(K, piece):
    """Best CPU ms of a value with its slopes, L=2, where nothing large has been freed before."""
    gradients.SCRATCH = piece
    shapes, theta, X, y = problem(2, K)
    nodes, phi = latent_nodes(shapes, 32), pack(theta)
    return best_times([lambda: likelihood_value_and_grad(phi, X, y, shapes, nodes)])[0] * 1e3


def memory_rows():
    """What the piece buys from which working memory is cut, in fresh processes."""
    yield "memory to work in, N=400 d=2 L=2, value+grad ms in fresh processes (median of 5): made for itself, then cut from a larger piece"
    yield f"{'K':>3} {'itself':>8} {'piece':>8} {'ratio':>6}"
    for experts in (10, 40):
        times = np.array([[float(subprocess.run([sys.executable, __file__, str(experts), str(piece)], check=True, capture_output=True, text=True).stdout)
                           for piece in (1, gradients.SCRATCH)] for _ in range(5)])
        itself, cut = np.median(times, axis=0)
        yield f"{experts:>3} {itself:>8.2f} {cut:>8.2f} {cut / itself:>6.2f}"


def mle_rows():
    """Maximum likelihood: one step (gradient and AdaBelief) of the network and of the exact objective."""
    yield "maximum likelihood, N=400 d=2 K=10: the network's gradient by hand and by autograd, then whole steps of AdaBelief"
    yield f"{'L':>3} {'gradient ms':>12} {'autograd ms':>12} {'step ms':>8} {'20000 steps s':>14}"
    for L in (2, 5):
        shapes, theta, X, y = problem(L)
        climb, phi, one_hot = mle_objective(X, y, shapes, "network"), pack(theta), np.eye(L)[y]
        automatic = grad(lambda p: anp.sum(network_log_probs(unpack(p, shapes), X) * one_hot))
        ours, steps = best_times([lambda: climb(phi), lambda: maximize(climb, phi, 50)])
        slow = best_of_three(lambda: automatic(phi))
        yield f"{L:>3} {ours * 1e3:>12.3f} {slow * 1e3:>12.2f} {steps * 1e3 / 50:>8.3f} {steps / 50 * 20_000:>14.1f}"


def main():
    if len(sys.argv) == 3:
        print(one_process(*map(int, sys.argv[1:])))
        return
    for name, function in list(globals().items()):
        if name.endswith("_rows"):
            for row in function():
                print(row, flush=True)
            print()


if __name__ == "__main__":
    main()
