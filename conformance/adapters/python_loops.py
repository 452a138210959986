"""CAVI for conditional mixture networks in loops: Python's standard library and nothing else, levels 0 to 4.

    python -m cmn_conformance run --command "python conformance/adapters/python_loops.py"

The last thirty lines are the whole protocol: one JSON object a line, in and out. A row of numbers is a list, a matrix a list of rows.
"""

import json
import math
import sys

LOG2, LOG2PI = math.log(2), math.log(2 * math.pi)

# ---- level 0: special functions


def log_sigmoid(t):
    return -math.log1p(math.exp(-t)) if t > 0 else t - math.log1p(math.exp(t))


def walk(stop, go):
    out, reach = [], 0.0
    for s, g in zip(stop, go):
        out.append(reach + s)
        reach += g
    return out + [reach]


def stick_log_probs(psi):
    return [walk([log_sigmoid(t) for t in row], [log_sigmoid(-t) for t in row]) for row in psi]


def counts(w):
    b = [math.fsum(w[j:]) for j in range(len(w) - 1)]
    return b, [w[j] - b[j] / 2 for j in range(len(w) - 1)]


def stick_counts(weights):
    rows = [counts(w) for w in weights]
    return [b for b, _ in rows], [kappa for _, kappa in rows]


def log_sum(terms):
    top = max(terms)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(t - top) for t in terms))


def stick_logits(log_probs):
    out = []
    for row in log_probs:
        later = [log_sum(row[j + 1:]) for j in range(len(row) - 1)]
        out.append([0.0 if p == q == -math.inf else p - q for p, q in zip(row, later)])
    return out


def log_cosh_half_one(c):
    c = abs(c)
    return math.log1p(2 * math.sinh(c / 4) ** 2) if c < 1 else c / 2 + math.log1p(math.exp(-c)) - LOG2


def theta(c):
    return 0.25 if abs(c) < 1e-150 else math.tanh(c / 2) / (2 * c)


def variance(c):
    c = abs(c)
    if c < 1:
        return math.fsum(c ** (2 * m - 2) / math.factorial(2 * m + 1) for m in range(1, 10)) / (4 * math.cosh(c / 2) ** 2)
    e = math.exp(-c)
    return (1 - e * e - 2 * c * e) / (2 * c**3 * (1 + e) ** 2)


def tilt_kl(c):
    c = abs(c)
    if c < 0.5:
        t = math.tanh(c / 2) ** 2
        return math.fsum((m - 1) / (2 * m * (2 * m - 1)) * t**m for m in range(2, 15))
    return log_cosh_half_one(c) - c / 4 * math.tanh(c / 2)


def log_cosh_half(c):
    return [log_cosh_half_one(x) for x in c]


def pg_mean(b, c):
    return [n * theta(x) for n, x in zip(b, c)]


def pg_var(b, c):
    return [n * variance(x) for n, x in zip(b, c)]


def pg_kl(b, c):
    return [n * tilt_kl(x) for n, x in zip(b, c)]


def log_sigmoid_normal_one(m, v, cut=40.0):
    if v == 0:
        return log_sigmoid(m)
    if m > 0:
        return math.log1p(-math.exp(log_sigmoid_normal_one(-m, v)))
    s, wide = math.sqrt(v), math.sqrt(2 * cut)
    r = min(math.pi / s, wide)
    step = 2 * math.pi * r / (cut + r * r / 2)
    grid = (step * i for i in range(int(-wide / step) - 1, int((s + wide) / step) + 2))
    return m + log_sum([s * t - t * t / 2 + log_sigmoid(-m - s * t) for t in grid]) + math.log(step) - LOG2PI / 2


def log_sigmoid_normal(m, v):
    return [log_sigmoid_normal_one(*pair) for pair in zip(m, v)]


def stick_log_means(m, v):
    return [walk(log_sigmoid_normal(a, s), log_sigmoid_normal([-x for x in a], s)) for a, s in zip(m, v)]


# ---- linear algebra


def dot(u, v):
    return math.fsum(a * b for a, b in zip(u, v))


def times(A, v):
    return [dot(row, v) for row in A]


def add(A, B, weight=1.0):
    return [[a + weight * b for a, b in zip(r, s)] for r, s in zip(A, B)]


def outer(u, v):
    return [[a * b for b in v] for a in u]


def eye(m, value=1.0):
    return [[value * (i == j) for j in range(m)] for i in range(m)]


def cholesky(P):
    C = eye(len(P), 0.0)
    for i in range(len(P)):
        for j in range(i + 1):
            rest = P[i][j] - dot(C[i][:j], C[j][:j])
            C[i][j] = math.sqrt(rest) if i == j else rest / C[j][j]
    return C


def log_det(P):
    return 2 * math.fsum(math.log(row[i]) for i, row in enumerate(cholesky(P)))


def inverse(P):
    m, C = len(P), cholesky(P)
    W = eye(m, 0.0)                                                       # C^-1
    for j in range(m):
        for i in range(j, m):
            W[i][j] = ((i == j) - math.fsum(C[i][k] * W[k][j] for k in range(j, i))) / C[i][i]
    return [[math.fsum(W[k][i] * W[k][j] for k in range(max(i, j), m)) for j in range(m)] for i in range(m)]


# ---- level 1: expectations, divergences, entropies


def digamma(x):
    shift = 0.0
    while x < 10:
        shift, x = shift - 1 / x, x + 1
    u = 1 / x**2
    series = u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132 - u * (691 / 32760 - u / 12))))))
    return shift + math.log(x) - 1 / (2 * x) - series


def trace(S):
    return math.fsum(S[i][i] for i in range(len(S)))


def second_moment(mu, S):
    return add(S, outer(mu, mu))


def padded_second_moment(mu, S):
    return [row + [m] for row, m in zip(second_moment(mu, S), mu)] + [mu + [1.0]]


def gaussian_entropy(S):
    return len(S) / 2 * (1 + LOG2PI) + log_det(S) / 2


def gaussian_kl(mu, S, sigma):
    m = len(mu)
    return ((trace(S) + dot(mu, mu)) / sigma**2 - m + 2 * m * math.log(sigma) - log_det(S)) / 2


def mean_log(a, b):
    return digamma(a) - math.log(b)


def gamma_kl_one(a, b, a0, b0):
    return (a - a0) * digamma(a) - math.lgamma(a) + math.lgamma(a0) + a0 * (math.log(b) - math.log(b0)) + a * (b0 - b) / b


def gamma_mean_log(a, b):
    return [mean_log(*pair) for pair in zip(a, b)]


def gamma_kl(a, b, a0, b0):
    return [gamma_kl_one(x, r, a0, b0) for x, r in zip(a, b)]


def mng_kl(M, V, a, b, v0, a0, b0):
    out = []
    for Mk, Vk, ak, bk in zip(M, V, a, b):
        D = len(Vk)
        row = trace(Vk) / v0 - D + D * math.log(v0) - log_det(Vk)
        out.append(math.fsum((row + ak / r * dot(m, m) / v0) / 2 + gamma_kl_one(ak, r, a0, b0) for m, r in zip(Mk, bk)))
    return out


def categorical_entropy(gamma):
    return [-math.fsum(g * math.log(g) for g in row if g > 0) for row in gamma]


def logits(x, mu, S):
    """E[psi], E[psi^2] of each stick at a padded input x that is known."""
    return [dot(m, x) for m in mu], [dot(x, times(second_moment(m, P), x)) for m, P in zip(mu, S)]


def gate_logits(X, beta0_mu, beta0_S):
    rows = [logits(x + [1.0], beta0_mu, beta0_S) for x in X]
    return [psi for psi, _ in rows], [psi2 for _, psi2 in rows]


def output_logits(mu, Sigma, beta1_mu, beta1_S):
    B = [second_moment(m, S) for m, S in zip(beta1_mu, beta1_S)]
    psi = [[[dot(m, x + [1.0]) for m in beta1_mu] for x in row] for row in mu]
    psi2 = [[[math.fsum(map(dot, Bl, E)) for Bl in B] for E in map(padded_second_moment, row, S)] for row, S in zip(mu, Sigma)]
    return psi, psi2


def stick_log_bound(psi, psi2, xi, b, kappa):
    return [coins(*row) for row in zip(psi, psi2, xi, b, kappa)]


def coins(psi, psi2, xi, b, kappa):
    return math.fsum(k * p - n * (LOG2 + theta(x) * p2 / 2 + tilt_kl(x)) for p, p2, x, n, k in zip(psi, psi2, xi, b, kappa))


# ---- level 2: one factor's update. s is the whole state, a dict.


def label(y, n_sticks):
    """b and kappa of one label."""
    return counts([float(c == y) for c in range(n_sticks + 1)])


def update_x(s):
    B = [second_moment(m, S) for m, S in zip(s["beta1_mu"], s["beta1_S"])]
    h, mu, Sigma = len(s["M"][0]), [], []
    for x, y, xi in zip(s["X"], s["y"], s["xi1"]):
        b, kappa = label(y, len(B))
        mu.append([])
        Sigma.append([])
        for k, M in enumerate(s["M"]):
            tau = [s["a"][k] / r for r in s["b"][k]]
            P = [[tau[i] * (i == j) for j in range(h)] for i in range(h)]
            eta = [t * p for t, p in zip(tau, times(M, x + [1.0]))]
            for Bl, m, omega, kl in zip(B, s["beta1_mu"], [n * theta(t) for n, t in zip(b, xi[k])], kappa):
                P = add(P, Bl, omega)
                eta = [e + kl * m[i] - omega * Bl[i][h] for i, e in enumerate(eta)]
            Sigma[-1].append(inverse(P))
            mu[-1].append(times(Sigma[-1][-1], eta))
    return mu, Sigma


def update_omega1(s):
    _, psi2 = output_logits(s["mu"], s["Sigma"], s["beta1_mu"], s["beta1_S"])
    return [[[math.sqrt(v) for v in row] for row in rows] for rows in psi2]


def update_omega0(s):
    return [[math.sqrt(v) for v in row] for row in gate_logits(s["X"], s["beta0_mu"], s["beta0_S"])[1]]


def update_z(s):
    out = []
    for T, E, G, Sigma in zip(output_bound(s), expert_bound(s), gate_bound(s), s["Sigma"]):
        score = [t + e + g + gaussian_entropy(S) for t, e, g, S in zip(T, E, G, Sigma)]
        total = log_sum(score)
        out.append([math.exp(v - total) for v in score])
    return out


def solve(P, linear, prior):
    S = inverse(add(P, eye(len(P), prior)))
    return times(S, linear), S


def weighted(terms, size):
    """sum of weight * x x^T and of pull * x."""
    P, linear = eye(size, 0.0), [0.0] * size
    for weight, pull, E, x in terms:
        P, linear = add(P, E, weight), [v + pull * xi for v, xi in zip(linear, x)]
    return P, linear


def update_beta1(s):
    out, J, h = [], len(s["xi1"][0][0]), len(s["M"][0])
    for l in range(J):
        terms = []
        for n, y in enumerate(s["y"]):
            b, kappa = label(y, J)
            for g, m, S, xi in zip(s["gamma"][n], s["mu"][n], s["Sigma"][n], s["xi1"][n]):
                terms.append((g * b[l] * theta(xi[l]), g * kappa[l], padded_second_moment(m, S), m + [1.0]))
        out.append(solve(*weighted(terms, h + 1), 1 / s["sigma1"] ** 2))
    return [m for m, _ in out], [S for _, S in out]


def update_beta0(s):
    out = []
    for j in range(len(s["gamma"][0]) - 1):
        terms = []
        for x, g, xi in zip(s["X"], s["gamma"], s["xi0"]):
            b, kappa = counts(g)
            terms.append((b[j] * theta(xi[j]), kappa[j], outer(x + [1.0], x + [1.0]), x + [1.0]))
        out.append(solve(*weighted(terms, len(s["X"][0]) + 1), 1 / s["sigma0"] ** 2))
    return [m for m, _ in out], [S for _, S in out]


def update_experts(s):
    M, V, a, b = [], [], [], []
    for k in range(len(s["a"])):
        gamma, Xt = [row[k] for row in s["gamma"]], [x + [1.0] for x in s["X"]]
        D = len(Xt[0])
        P = weighted([(g, 0.0, outer(x, x), x) for g, x in zip(gamma, Xt)], D)[0]
        V.append(inverse(add(P, eye(D, 1 / s["v0"]))))
        a.append(s["a0"] + math.fsum(gamma) / 2)
        M.append([])
        b.append([])
        for i in range(len(s["M"][k])):
            mean, target = [0.0] * D, [rows[k][i] for rows in s["mu"]]
            for _ in range(2):                                            # the second pass, about the first mean, has all digits
                rest = [t - dot(mean, x) for t, x in zip(target, Xt)]
                pull = [math.fsum(g * r * x[d] for g, r, x in zip(gamma, rest, Xt)) - mean[d] / s["v0"] for d in range(D)]
                mean = [m + step for m, step in zip(mean, times(V[k], pull))]
            squares = math.fsum(g * ((t - dot(mean, x)) ** 2 + S[k][i][i]) for g, t, x, S in zip(gamma, target, Xt, s["Sigma"]))
            M[k].append(mean)
            b[k].append(s["b0"] + (squares + dot(mean, mean) / s["v0"]) / 2)
    return M, V, a, b


# ---- level 3: terms of the bound


def output_bound(s):
    psi, psi2 = output_logits(s["mu"], s["Sigma"], s["beta1_mu"], s["beta1_S"])
    known = [label(y, len(s["beta1_mu"])) for y in s["y"]]
    return [[coins(p, p2, x, *bk) for p, p2, x in zip(*rows)] for rows, bk in zip(zip(psi, psi2, s["xi1"]), known)]


def expert_bound(s):
    out = []
    for x, mu, Sigma in zip(s["X"], s["mu"], s["Sigma"]):
        out.append([])
        for M, V, a, b, m, S in zip(s["M"], s["V"], s["a"], s["b"], mu, Sigma):
            xt = x + [1.0]
            spread = dot(xt, times(V, xt))
            out[-1].append(math.fsum(mean_log(a, r) - LOG2PI - a / r * ((m[i] - dot(M[i], xt)) ** 2 + S[i][i]) - spread
                                     for i, r in enumerate(b)) / 2)
    return out


def gate_bound(s):
    out = []
    for psi, psi2, xi in zip(*gate_logits(s["X"], s["beta0_mu"], s["beta0_S"]), s["xi0"]):
        out.append([coins(psi, psi2, xi, *label(k, len(psi))) for k in range(len(psi) + 1)])
    return out


def mean(gamma, values):
    return math.fsum(map(dot, gamma, values))


def elbo_output(s):
    return mean(s["gamma"], output_bound(s))


def elbo_expert(s):
    return mean(s["gamma"], expert_bound(s))


def elbo_latent_entropy(s):
    return mean(s["gamma"], [list(map(gaussian_entropy, row)) for row in s["Sigma"]])


def elbo_gate(s):
    return mean(s["gamma"], gate_bound(s))


def elbo_assignment_entropy(s):
    return math.fsum(categorical_entropy(s["gamma"]))


def kl_beta1(s):
    return math.fsum(gaussian_kl(m, S, s["sigma1"]) for m, S in zip(s["beta1_mu"], s["beta1_S"]))


def kl_beta0(s):
    return math.fsum(gaussian_kl(m, S, s["sigma0"]) for m, S in zip(s["beta0_mu"], s["beta0_S"]))


def kl_experts(s):
    return math.fsum(mng_kl(s["M"], s["V"], s["a"], s["b"], s["v0"], s["a0"], s["b0"]))


def elbo(s):
    gains = elbo_output(s) + elbo_expert(s) + elbo_latent_entropy(s) + elbo_gate(s) + elbo_assignment_entropy(s)
    return gains - kl_beta1(s) - kl_beta0(s) - kl_experts(s)


# ---- level 4: sweeps


def sweeps(s):
    trace, s = [], dict(s)
    for _ in range(s["n_sweeps"]):
        s["mu"], s["Sigma"] = update_x(s)
        s["xi1"] = update_omega1(s)
        s["xi0"] = update_omega0(s)
        s["gamma"] = update_z(s)
        s["beta1_mu"], s["beta1_S"] = update_beta1(s)
        s["beta0_mu"], s["beta0_S"] = update_beta0(s)
        s["M"], s["V"], s["a"], s["b"] = update_experts(s)
        trace.append(elbo(s))
    return {**s, "elbo": trace}


# ---- the protocol

WHOLE_STATE = [update_x, update_omega1, update_omega0, update_z, update_beta1, update_beta0, update_experts, elbo_output, elbo_expert,
               elbo_latent_entropy, elbo_gate, elbo_assignment_entropy, kl_beta1, kl_beta0, kl_experts, elbo, sweeps]
BY_NAME = [stick_log_probs, stick_counts, stick_logits, log_cosh_half, pg_mean, pg_var, pg_kl, log_sigmoid_normal, stick_log_means,
           second_moment, padded_second_moment, gaussian_entropy, gaussian_kl, gamma_mean_log, gamma_kl, mng_kl, categorical_entropy,
           gate_logits, output_logits, stick_log_bound]
OPS = {f.__name__: f for f in BY_NAME} | {f.__name__: (lambda f: lambda **s: f(s))(f) for f in WHOLE_STATE}


def nested(value):
    """{"shape", "data"} -> lists of lists; numbers as they are, "inf" as a number."""
    if not isinstance(value, dict):
        return float(value) if isinstance(value, str) else value
    def build(shape):
        return nested(next(data)) if not shape else [build(shape[1:]) for _ in range(shape[0])]
    data = iter(value["data"])
    return build(value["shape"])


def plain(value):
    """Lists of lists are an answer too; NaN and infinities are words."""
    return [plain(v) for v in value] if isinstance(value, list) else value if math.isfinite(value) else str(value)


def answer(question):
    if question["cmd"] == "start":
        return {"protocol": 1, "name": "python loops", "version": "1", "language": f"Python {sys.version.split()[0]}",
                "profile": {}, "dtypes": ["f64"], "ops": list(OPS)}
    try:
        names, given = question["outputs"], {k: nested(v) for k, v in question["in"].items()}
        out = OPS[question["op"]](**given)
        out = out if isinstance(out, dict) else dict(zip(names, out if len(names) > 1 else [out]))
        return {"out": {name: plain(out[name]) for name in names}}
    except Exception as error:
        return {"errored": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for line in sys.stdin:
        question = json.loads(line)
        if question["cmd"] == "stop":
            break
        print(json.dumps({"seq": question["seq"], **answer(question)}), flush=True)
