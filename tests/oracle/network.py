"""The deterministic, gate-averaged network and its separation, one number at a time."""
import math


def log_sigmoid(t):
    return -math.log1p(math.exp(-t)) if t > 0 else t - math.log1p(math.exp(t))


def line(weights, x):
    """weights . [x; 1]"""
    return sum(w * v for w, v in zip(weights, [*x, 1.0]))


def sticks(psi):
    """Log probabilities of the classes, by walking."""
    out, reach = [], 0.0
    for t in psi:
        out.append(reach + log_sigmoid(t))
        reach += log_sigmoid(-t)
    return [*out, reach]


def log_probs(beta1, beta0, A, x):
    gate = [math.exp(v) for v in sticks([line(b, x) for b in beta0])]
    x1 = [sum(g * line(expert[i], x) for g, expert in zip(gate, A)) for i in range(len(A[0]))]
    return sticks([line(b, x1) for b in beta1])


def first_choice(psi):
    """Where a walk ends if every coin falls on its likelier side."""
    return next((j for j, t in enumerate(psi) if t > 0), len(psi))


def separated(beta1, beta0, A, X, y, exact):
    """Per output stick: is every row that reaches it on its side?"""
    right = [True] * len(beta1)
    for x, label in zip(X, y):
        if exact:
            expert = A[first_choice([line(b, x) for b in beta0])]
            x1 = [line(row, x) for row in expert]
        else:
            gate = [math.exp(v) for v in sticks([line(b, x) for b in beta0])]
            x1 = [sum(g * line(expert[i], x) for g, expert in zip(gate, A)) for i in range(len(A[0]))]
        for l in range(min(label, len(beta1) - 1) + 1):
            t = line(beta1[l], x1)
            right[l] = right[l] and (t > 0 if label == l else t < 0)
    return right
