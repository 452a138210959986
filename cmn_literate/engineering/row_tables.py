# Tangled from book/engineering/row_tables.ipynb by tools/tangle.py; edit the notebook, not this file.
"""One table for all rows

The class probabilities given the latent vector are one function of few coordinates, the same for
all rows. Tabulated once for each expert, on a grid whose step comes from a proved error bound,
they turn the forecast of a row into a weighted sum of the table: for one or two latent dimensions
the number of these probabilities depends on how far the rows lie apart and on the digits, and
hardly on how many rows there are.
"""

__all__ = ["table_weights", "integrate_by_table", "steep_slopes", "widest_step", "sinh_axis",
           "table_axes", "among_others", "fill_by_tables", "scale_points", "fill_by_scales",
           "twin_experts", "shared_integrals"]


# book/engineering/row_tables.ipynb, cell row_tables-02
import numpy as np
from scipy.special import stdtrit


# book/engineering/row_tables.ipynb, cell row_tables-06
def table_weights(x, spacing, location, scale, dof):
    """Weights of the points of an axis for the t laws of all rows.
    [eq-table-weights]
    x, spacing (N,), location, scale (n,), dof a number -> (n,N), rows sum to 1"""
    w = x - location[:, None]
    w /= scale[:, None]
    w *= w
    w /= dof
    np.log1p(w, out=w)
    w *= -0.5 * (dof + 1)
    np.exp(w, out=w)
    w *= spacing
    w /= w.sum(1, keepdims=True)
    return w


def integrate_by_table(evaluate, axes, location, scale, dof):
    """E G(x1) for the t laws of all rows, from one table of G.  [eq-table-sum]

    evaluate: G, (h,Q) -> (L,Q); axes of table_axes; location, scale (n,h), h 1 or 2
    -> (n,L)
    """
    W = [table_weights(*axis, location[:, i], scale[:, i], dof) for i, axis in enumerate(axes)]
    grid = np.stack(np.meshgrid(*[x for x, _ in axes], indexing="ij")).reshape(len(axes), -1)
    G = np.concatenate([evaluate(grid[:, i:i + 4096]) for i in range(0, grid.shape[1], 4096)], 1)
    if len(W) == 1:
        return W[0] @ G.T
    G = G.reshape(len(G), len(axes[0][0]), -1)
    return np.stack([((W[0] @ g) * W[1]).sum(1) for g in G], 1)


# book/engineering/row_tables.ipynb, cell row_tables-08
def steep_slopes(parameters):
    """Bound for the slope of a stick in a latent: root of mean^2 + (2 sd)^2.
    [eq-table-slope]   -> (J,h)"""
    p = parameters
    return np.sqrt(p.beta1_mu**2 + 4 * np.diagonal(p.beta1_S, axis1=1, axis2=2))[:, :-1]


def widest_step(sharpness, dof, digits):
    """Widest step, in scales of the law, for which the bound is 10^-digits.
    [eq-table-bound, eq-table-step]

    sharpness (n,J) of the sticks along one coordinate, dof a number, digits (n,) -> (n,)
    """
    pole = 0.97 * np.pi / np.maximum(sharpness.max(1), 1e-9)
    a = np.linspace(0.04, 1, 25)[:, None] * np.minimum(pole, min(0.98 * np.sqrt(dof), 8.0))
    angle = np.clip(a[..., None] * sharpness, np.pi / 2, None)
    log_M = -0.5 * dof * np.log1p(-a * a / dof) - np.log(np.sin(angle)).sum(-1)
    loss = np.logaddexp(0, np.log(2) + log_M + digits * np.log(10))
    return (2 * np.pi * a / loss).max(0)


# book/engineering/row_tables.ipynb, cell row_tables-13
def sinh_axis(location, scale, step, reach, dof):
    """Points of one coordinate for all rows, and how far apart they are.
    [eq-table-sinh]

    location, scale, step, reach (n,): near its location a row wants points at most
    step * scale apart, and points up to reach * scale -> x (N,), spacing (N,) up to a
    factor; None if more than 4096 points are wanted
    """
    ends = np.array([(location - reach * scale).min(), (location + reach * scale).max()])
    centre, half = (location.max() + location.min()) / 2, np.ptp(location) / 2
    A = max(half, scale.max() * min(np.sqrt(dof), 8.0))
    eta = (step * scale / np.hypot(A, location - centre)).min()
    ends = np.arcsinh((ends - centre) / A)
    count = np.ceil(np.ptp(ends) / eta) + 1
    if not count <= 4096:
        return None
    y = np.linspace(*ends, int(count))
    return centre + A * np.sinh(y), np.cosh(y)


def table_axes(slope, location, scale, dof, weight, tol):
    """Axes of the table of one expert.  [eq-table-step, eq-table-sinh]

    slope (J,h) of the logits, location, scale (n,h), dof a number, weight (n,): how much
    each row's integral matters; tol: what its error, times weight, may be
    -> [(x (N,), spacing (N,)) or None, ...], one for each coordinate, as of sinh_axis
    """
    h = location.shape[1]
    tail = np.minimum(tol / (4 * h * weight), 0.4)
    knots = np.geomspace(tail.min(), 0.4, 12)
    reach = np.interp(np.log(tail), np.log(knots), -stdtrit(dof, knots))
    digits = np.log10(2 * h * weight / tol)
    return [sinh_axis(location[:, i], scale[:, i],
                      widest_step(scale[:, i, None] * slope[:, i], dof, digits), reach, dof)
            for i in range(h)]


# book/engineering/row_tables.ipynb, cell row_tables-16
def among_others(location):
    """Rows whose location is near those of the others: within five interquartile ranges
    of the median.  [eq-table-sinh]   (n,h) -> (n,) bool"""
    low, middle, high = np.quantile(location, [0.25, 0.5, 0.75], axis=0)
    return (np.abs(location - middle) <= 5 * (high - low)).all(1)


def fill_by_tables(evaluate, slope, location, scale, dof, weight, points, tol):
    """Integrals of pairs (row, expert) for which a table is cheaper than a rule of each.
    [eq-table-sum, eq-table-step]

    evaluate, slope as above, location, scale (n,K,h), dof (K,), weight (n,K);
    points (n,K): evaluations of G that a pair takes otherwise, 0 for none wanted
    -> P (n,K,L), done (n,K) bool: where P holds an integral
    """
    P, done = np.zeros((*weight.shape, len(slope) + 1)), np.zeros(weight.shape, bool)
    for k in np.flatnonzero((points > 0).sum(0) >= 32):
        rows = np.flatnonzero((points[:, k] > 0) & (weight[:, k] > tol))
        rows = rows[among_others(location[rows, k])] if rows.size else rows
        if rows.size < 32:
            continue
        laws = location[rows, k], scale[rows, k], dof[k]
        axes = table_axes(slope, *laws, weight[rows, k], tol)
        if not all(axes):
            continue
        sizes = [len(x) for x, _ in axes]
        cost = np.prod(sizes) * (1 + rows.size / 400) + rows.size * sum(sizes) / 6
        if cost < points[rows, k].sum():
            P[rows, k] = integrate_by_table(evaluate, axes, *laws)
            done[rows, k] = P[rows, k].min(1) > 1e-200           # smaller ones want logarithms
    return P, done


# book/engineering/row_tables.ipynb, cell row_tables-19
def scale_points(scale):
    """Chebyshev points for a function of ln scale, and the polynomial through them.
    [eq-table-scale]   scale (n,) -> points (m,), C (n,m): f(scale) = C f(points)"""
    t = np.log(scale)
    middle, R = (t.max() + t.min()) / 2, max(np.ptp(t) / 2, 1e-6)
    rho = 1.2 / R + np.sqrt(1 + (1.2 / R)**2)
    m = int(np.ceil(10 * np.log(10) / np.log(rho))) + 1
    angle = (np.arange(m) + 0.5) * np.pi / m
    gap = ((t - middle) / R)[:, None] - np.cos(angle)
    C = (-1.0)**np.arange(m) * np.sin(angle) / np.where(np.abs(gap) < 1e-15, 1e-15, gap)
    return np.exp(middle + R * np.cos(angle)), C / C.sum(1, keepdims=True)


def fill_by_scales(integrate, location, scale, weight, tol):
    """Integrals of experts whose laws are centred at 0 for 32 rows and more.
    [eq-table-scale, eq-pred-near]

    integrate: (k, scale (m,h), weight) -> (m,L), laws at 0;  location, scale (n,K,h),
    weight (n,K), 0 for none wanted;  tol: what a shift, times weight, may change
    -> P (n,K,L) or None, done (n,K) bool: where P holds an integral
    """
    shift = weight * 0.4 * (np.abs(location) / scale).sum(2)
    centred, P, done = (weight > 0) & (shift <= tol), None, np.zeros(weight.shape, bool)
    for k in np.flatnonzero(centred.sum(0) >= 32):
        rows = np.flatnonzero(centred[:, k])
        unit = scale[rows[0], k]
        points, C = scale_points(scale[rows, k, 0] / unit[0])
        if 2 * len(points) > len(rows):
            continue
        found = C @ integrate(k, points[:, None] * unit, weight[rows, k].max())
        P = np.zeros((*weight.shape, found.shape[1])) if P is None else P
        P[rows, k], done[rows, k] = found, found.min(1) > 1e-6
    return P, done


# book/engineering/row_tables.ipynb, cell row_tables-22
def twin_experts(parameters, tol=1e-9):
    """First expert with the integrals of expert k: equal M, V, a, b, relative to
    1 + size and tol.  [eq-pred-factors]   -> (K,)"""
    p, K = parameters, len(parameters.a)
    flat = np.concatenate(
        [p.a[:, None], p.b, p.M.reshape(K, -1), p.V.reshape(K, -1)], axis=1)
    first = np.arange(K)
    few = flat[:, :1 + p.b.shape[1]]                       # a and b alone tell most
    alike = np.abs(few[:, None] - few) <= tol * (1 + np.abs(few))[:, None]
    k, other = np.nonzero(np.tril(alike.all(2), -1))
    same = (np.abs(flat[other] - flat[k]) <= tol * (1 + np.abs(flat[k]))).all(1)
    first[k[same][::-1]] = other[same][::-1]               # the last, the smallest, stays
    for k in range(K):
        first[k] = first[first[k]]
    return first


def shared_integrals(parameters, location, scale, dof, size):
    """Pairs (row, expert) that may take the integral of an expert nearby, and whose.
    [eq-pred-near]   size (n,K): how much a change matters -> (n,K) bool, (K,)"""
    near, h = twin_experts(parameters, 0.01), scale.shape[2]
    gap = (0.4 * np.abs(location - location[:, near]) / scale[:, near]
           + 0.5 * np.abs(np.log(scale / scale[:, near])))
    bound = gap.sum(2) + 0.5 * h * np.abs(np.log(dof / dof[near]))
    close = size * bound <= (1e-10 if h == 1 else 3e-9)
    return close & (near != np.arange(len(near))), near
