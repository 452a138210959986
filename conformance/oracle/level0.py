"""Level 0: special functions, entry by entry."""

from mpmath import mpf

from special import INF, log_cosh_half, log_sigmoid, log_sigmoid_normal_pair, log_sum, theta, theta_var, tilt_kl


def walk(stop, go):
    """ln pi_c of one row from the log probabilities of stopping and of passing each stick."""
    reach, out = mpf(0), []
    for s, p in zip(stop, go, strict=True):
        out.append(reach + s)
        reach += p
    return [*out, reach]


def stick_log_probs(psi, sticks="K-1"):
    rows = [row if sticks == "K-1" else row[:-1] for row in psi]
    return {"log_probs": [walk([log_sigmoid(t) for t in row], [log_sigmoid(-t) for t in row]) for row in rows]}


def counts(w):
    b, kappa = [], []
    for j in range(len(w) - 1):
        total = mpf(0)
        for k in range(len(w) - 1, j - 1, -1):
            total += w[k]
        b.append(total)
        kappa.append(w[j] - total / 2)
    return b, kappa


def stick_counts(weights, sticks="K-1"):
    table = [counts(w) for w in weights]
    last = [] if sticks == "K-1" else [mpf(0)]
    return {"b": [b + last for b, _ in table], "kappa": [k + last for _, k in table]}


def stick_logits(log_probs):
    out = []
    for row in log_probs:
        psi, total = [], log_sum(row)
        row = [v - total for v in row]
        for j in range(len(row) - 1):
            later = log_sum(row[j + 1:])
            psi.append(mpf(0) if row[j] == later == -INF else row[j] - later)
        out.append(psi)
    return {"psi": out}


def stick_means(m, v):
    """ln E pi_c of one row of independent sticks."""
    pairs = [log_sigmoid_normal_pair(a, b) for a, b in zip(m, v, strict=True)]
    return walk([stop for stop, _ in pairs], [go for _, go in pairs])


def elementwise(function, name):
    return lambda b, c: {name: [bi * function(ci) for bi, ci in zip(b, c, strict=True)]}


OPS = {
    "stick_log_probs": stick_log_probs,
    "stick_counts": stick_counts,
    "stick_logits": stick_logits,
    "log_cosh_half": lambda c: {"value": [log_cosh_half(x) for x in c]},
    "pg_mean": elementwise(theta, "mean"),
    "pg_var": elementwise(theta_var, "var"),
    "pg_kl": elementwise(tilt_kl, "kl"),
    "log_sigmoid_normal": lambda m, v: {"log_mean": [log_sigmoid_normal_pair(a, b)[0] for a, b in zip(m, v, strict=True)]},
    "stick_log_means": lambda m, v: {"log_probs": [stick_means(*row) for row in zip(m, v, strict=True)]},
}
