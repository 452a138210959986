"""A mean that all experts share: rows A_0i ~ N(0, v00 I), q(A_0i) = N(A0_mu_i, A0_var_i I), and row i of A_k, given tau_ki, ~ N(A_0i, (v0 / tau_ki) I).

Straight from the equations: no expert is moved to another origin, and v00 = 0 is the mean 0 of the plain model.
"""

from loops import dot
from mpmath import mpf
from special import log


def update(s):
    """Best q(A_0) given the experts: the precisions add up, each expert pulls with its own."""
    v0, v00, D, mean, var = s["v0"], s["v00"], len(s["V"][0]), [], []
    for i in range(len(s["M"][0])):
        precision, pull = mpf(0), [mpf(0)] * D
        for k, M in enumerate(s["M"]):
            weight = s["a"][k] / s["b"][k][i] / v0
            precision += weight
            for d in range(D):
                pull[d] += weight * M[i][d]
        spread = 1 / (1 / v00 + precision) if v00 else mpf(0)
        mean.append([spread * p for p in pull])
        var.append(spread)
    return {"A0_mu": mean, "A0_var": var}


def centre(s, i):
    """E[A_0i], or 0 where nothing is shared."""
    return s["A0_mu"][i] if "A0_mu" in s else [mpf(0)] * len(s["V"][0])


def misfit(s, i, m):
    """E|m - A_0i|^2 over q(A_0)."""
    if "A0_mu" not in s:
        return dot(m, m)
    gap = [x - y for x, y in zip(m, s["A0_mu"][i], strict=True)]
    return dot(gap, gap) + len(m) * s["A0_var"][i]


def kl(s):
    """KL[q(A_0) || N(0, v00 I) for each row]; 0 where v00 = 0."""
    total = mpf(0)
    for m, var in zip(s["A0_mu"], s["A0_var"], strict=True):
        if s["v00"]:
            total += (dot(m, m) / s["v00"] + len(m) * (var / s["v00"] - 1 + log(s["v00"]) - log(var))) / 2
    return total
