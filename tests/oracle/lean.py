"""The leaner families of q(x_1, z) in loops; written apart from the package.

A family is (own, shape) with shape "free", "axes", "framed", "shared" or "by-class"; a state is the dict of `cmn`.
"""
import numpy as np

from . import cmn
from .special import stick_b, stick_kappa, theta


def natural(s, X, y, n, k):
    """Precision and linear term of row n under expert k."""
    h, x = s["mu"].shape[2], cmn.padded(X[n])
    precision, linear = np.zeros((h, h)), np.zeros(h)
    for i in range(h):
        tau = s["a"][k] / s["b"][k, i]
        precision[i, i] += tau
        linear[i] += tau * (s["M"][k, i] @ x)
    for l in range(len(s["beta1_mu"])):
        B = cmn.outer_moment(s["beta1_mu"][l], s["beta1_S"][l])
        weight = stick_b(l, y[n]) * theta(cmn.tilt1(s, n, k, l))
        for i in range(h):
            linear[i] += stick_kappa(l, y[n]) * s["beta1_mu"][l, i] - weight * B[i, h]
            for j in range(h):
                precision[i, j] += weight * B[i, j]
    return precision, linear


def gaussians(s, X, y, own):
    """{(row, Gaussian of the row): (precision, linear, weight)}"""
    N, K = s["gamma"].shape
    found = {}
    for n in range(N):
        parts = [natural(s, X, y, n, k) for k in range(K)]
        if own:
            found |= {(n, k): (*parts[k], s["gamma"][n, k]) for k in range(K)}
        else:
            found[n, 0] = sum(s["gamma"][n, k] * parts[k][0] for k in range(K)), sum(s["gamma"][n, k] * parts[k][1] for k in range(K)), 1.0
    return found


def restricted(precision, shape, frame, rank):
    """Best covariance of one Gaussian: conditions on the axes of the block and, one by one, of the others."""
    h = len(precision)
    R = np.eye(h) if shape == "axes" else frame
    rank = 0 if shape == "axes" else rank
    S = np.zeros((h, h))
    if rank:
        S[:rank, :rank] = np.linalg.inv([[R[:, i] @ precision @ R[:, j] for j in range(rank)] for i in range(rank)])
    for i in range(rank, h):
        S[i, i] = 1 / (R[:, i] @ precision @ R[:, i])
    return R @ S @ R.T


def update_x(s, X, y, own, shape, frame=None, rank=0):
    """The state with the best q(x_1|z) of the family; frame (K, h, h)."""
    found, (N, K, h) = gaussians(s, X, y, own), s["mu"].shape
    mu, Sigma = np.zeros((N, K, h)), np.zeros((N, K, h, h))
    for n in range(N):
        for k in range(K):
            g = k if own else 0
            precision, linear, _ = found[n, g]
            mu[n, k] = np.linalg.solve(precision, linear)
            if shape == "free":
                Sigma[n, k] = np.linalg.inv(precision)
            elif shape in ("axes", "framed"):
                Sigma[n, k] = restricted(precision, shape, None if frame is None else frame[k], rank)
            else:
                total, weight = np.zeros((h, h)), 0.0
                for m in range(N):
                    if shape == "shared" or y[m] == y[n]:
                        total, weight = total + found[m, g][2] * found[m, g][0], weight + found[m, g][2]
                Sigma[n, k] = np.linalg.inv(total / weight)
    return {**s, "mu": mu, "Sigma": Sigma}
