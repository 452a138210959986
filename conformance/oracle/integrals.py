"""Level 6: predictive probabilities and the likelihood, by trapezoids whose step is halved until nothing changes.

A trapezoid over the whole line converges geometrically for the integrands here, which are analytic near the line.
"""

from itertools import product

from mpmath import mp, mpf

from level0 import stick_means, walk
from loops import cholesky, dot, quadratic, times
from network import pad, sweeps
from special import log_gamma, log_sigmoid, log_sum

WORK = 16                                                   # decimal digits inside
CLOSE = mpf(10) ** -7                                      # agreement of two steps; halving the step squares the error


def normal_rule(step, cut):
    """Nodes and weights of E f(z), z ~ N(0, 1); weights below cut are left out."""
    wide = mp.sqrt(-2 * mp.log(cut))
    nodes = [i * step for i in range(-int(wide / step), int(wide / step) + 1)]
    return [(z, step * mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)) for z in nodes]


def t_rule(dof):
    """The same for a Student t; with u = sinh w the tails fall off geometrically in w."""
    constant = mp.exp(log_gamma((dof + 1) / 2) - log_gamma(dof / 2)) / mp.sqrt(dof * mp.pi)

    def rule(step, cut):
        wide = 2 + mp.log(1 / cut) / dof
        out = []
        for i in range(-int(wide / step), int(wide / step) + 1):
            u = mp.sinh(i * step)
            out.append((u, step * mp.cosh(i * step) * constant * (1 + u * u / dof) ** (-(dof + 1) / 2)))
        return out
    return rule


def expectation(rules, logs, coarse, close=CLOSE, left=1e-15):
    """ln E exp(logs(z)) over independent z_i, for each entry of logs: halve the step until it stands still.

    What is left out is small against the smallest of the results, not against 1.
    """
    if not rules:
        return logs([])
    step, least, before = mpf(1) / 2, mpf(0), None
    while step > mpf(1) / 400:
        cut = mp.exp(least) * (1e-8 if coarse else left)
        terms = []
        for point in product(*(rule(step, cut) for rule in rules)):
            weight = mpf(1)
            for _, w in point:
                weight *= w
            if weight > cut:
                terms.append([mp.log(weight) + v for v in logs([z for z, _ in point])])
        now = [log_sum(column) for column in zip(*terms, strict=True)]
        if min(now) < least - 5:                            # go further out first
            least = max(min(now), mpf(-400))
            if least > -400:
                continue
        if coarse or before and all(abs(a - b) < close * (1 + abs(a)) for a, b in zip(now, before, strict=True)):
            return now
        before, step = now, step / 2
    raise ArithmeticError("the integral does not settle")


def sticks_at(psi):
    return walk([log_sigmoid(t) for t in psi], [log_sigmoid(-t) for t in psi])


def mixed(gate, experts):
    """ln sum_k e^gate_k e^experts_kc for each class c."""
    return [log_sum([g + e[c] for g, e in zip(gate, experts, strict=True)]) for c in range(len(experts[0]))]


def independent(a, rates, read):
    """(degrees of freedom of each u, map from u to the directions read) of h precisions Gamma(a, rate)."""
    deviations = [mp.sqrt(rates[i] / a) for i in read]
    return [2 * a] * len(read), lambda u: [s * v for s, v in zip(deviations, u, strict=True)]


def joint(nu, U, read):
    """The same of one precision Wishart(nu, U): a Student t in h dimensions with nu - h + 1 degrees, of which each coordinate given the earlier ones is
    a t with one degree more, wider by what these are."""
    dof = nu - len(U) + 1
    C = cholesky([[U[i][j] / dof for j in read] for i in read])

    def spread(u):
        v, square = u[:1], mpf(0)
        for i, ui in enumerate(u[1:], 1):
            square += v[-1] ** 2
            v.append(ui * mp.sqrt((dof + square) / (dof + i)))
        return times(C, v)
    return [dof + i for i in range(len(read))], spread


def predict(X, beta1_mu, beta1_S, beta0_mu, beta0_S, M, V, a=None, b=None, nu=None, U=None, coarse=False):
    with mp.workdps(WORK):
        out = []
        h = len(M[0])
        # a direction that no output stick reads needs no integral
        read = [i for i in range(h) if any(m[i] or S[i][i] for m, S in zip(beta1_mu, beta1_S, strict=True))]
        for x in X:
            xt = pad(x)
            gate = stick_means([dot(m, xt) for m in beta0_mu], [quadratic(S, xt) for S in beta0_S])
            experts = []
            for k in range(len(M)):
                location = times(M[k], xt)
                wide = mp.sqrt(1 + quadratic(V[k], xt))
                dofs, spread = independent(a[k], b[k], read) if U is None else joint(nu[k], U[k], read)

                def logs(u, location=location, wide=wide, spread=spread):
                    at = list(location)
                    for i, ui in zip(read, spread(u), strict=True):
                        at[i] += wide * ui
                    return stick_means([dot(m, pad(at)) for m in beta1_mu], [quadratic(S, pad(at)) for S in beta1_S])
                experts.append(expectation([t_rule(dof) for dof in dofs], logs, coarse, 1e-6, 1e-13))
            out.append(mixed(gate, experts))
        return {"log_probs": out}


def predict_by_means(X, beta1_mu, beta1_S, beta0_mu, beta0_S, M, V, **noise):
    out = []
    for x in X:
        xt = pad(x)
        out.append(mixed(sticks_at(times(beta0_mu, xt)), [sticks_at(times(beta1_mu, pad(times(A, xt)))) for A in M]))
    return {"log_probs": out}


def logit_law(x, A, tau, beta1):
    """Mean and square root C of the covariance of the logits of one expert: psi = mean + C z with as few z as possible."""
    J, h = len(beta1), len(A)
    mean = times(beta1, pad(times(A, pad(x))))
    C = [[beta1[l][i] / mp.sqrt(tau[i]) for i in range(h)] for l in range(J)]
    if h > J:
        C = cholesky([[dot(u, v) for v in C] for u in C])
    return mean, C


def log_likelihood(X, y, beta1, beta0, A, tau, coarse=False):
    with mp.workdps(WORK):
        out = []
        for x, label in zip(X, y, strict=True):
            experts = []
            for Ak, tk in zip(A, tau, strict=True):
                mean, C = logit_law(x, Ak, tk, beta1)
                logs = lambda z, mean=mean, C=C, label=label: [sticks_at([m + dot(row, z) for m, row in zip(mean, C, strict=True)])[label]]
                experts.append(expectation([normal_rule] * len(C[0]), logs, coarse))
            out.append(mixed(sticks_at(times(beta0, pad(x))), experts)[0])
        return {"log_lik": out}


def log_likelihood_by_means(X, y, beta1, beta0, A, tau):
    table = [mixed(sticks_at(times(beta0, pad(x))), [sticks_at(times(beta1, pad(times(Ak, pad(x))))) for Ak in A]) for x in X]
    return {"log_lik": [row[label] for row, label in zip(table, y, strict=True)]}


def log_likelihood_by_jensen(X, y, beta1, beta0, A, tau):
    """sum_k pi_k E ln p(y | x1), the mean of the logarithm."""
    out = []
    for x, label in zip(X, y, strict=True):
        gate, total = sticks_at(times(beta0, pad(x))), mpf(0)
        for g, Ak, tk in zip(gate, A, tau, strict=True):
            mean, C = logit_law(x, Ak, tk, beta1)
            for l, (m, row) in enumerate(zip(mean, C, strict=True)):
                s = mp.sqrt(dot(row, row))
                if l <= label:
                    sign = 1 if l == label else -1
                    total += mp.exp(g) * sum(w * log_sigmoid(sign * (m + s * z)) for z, w in normal_rule(mpf(1) / 4, mpf(10) ** -8))
        out.append(total)
    return {"log_lik": out}


def log_sigmoid_probit(m, v):
    return log_sigmoid(m / mp.sqrt(1 + mp.pi * v / 8))


def after(n_sweeps, s):
    """What a forecast reads of the state that so many sweeps reach."""
    s = sweeps(n_sweeps, **s)
    return {name: s[name] for name in ("beta1_mu", "beta1_S", "beta0_mu", "beta0_S", "M", "V", "a", "b")}


def forecast(X_new, n_sweeps, coarse=False, **s):
    return predict(X_new, **after(n_sweeps, s), coarse=coarse)


def forecast_by_means(X_new, n_sweeps, **s):
    return predict_by_means(X_new, **after(n_sweeps, s))


OPS = {"predict": predict, "log_likelihood": log_likelihood, "forecast": forecast}
# what is done instead: a tolerance must tell it apart
SHORTCUTS = {
    "predict": [predict_by_means], "forecast": [forecast_by_means],
    "log_likelihood": [log_likelihood_by_means, log_likelihood_by_jensen],
    "log_sigmoid_normal": [lambda m, v: {"log_mean": [log_sigmoid(a) for a in m]},
                           lambda m, v: {"log_mean": [log_sigmoid_probit(a, b) for a, b in zip(m, v, strict=True)]}],
    "stick_log_means": [lambda m, v: {"log_probs": [sticks_at(row) for row in m]}],
}
