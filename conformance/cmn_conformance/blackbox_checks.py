"""The checks of level B.  Each takes a blackbox.Lab and gives comparisons (judged.near, at_most, holds)."""

from itertools import product
from typing import NamedTuple

import numpy as np

from cmn_conformance.blackbox import prior_probabilities
from cmn_conformance.calibration import calibration_of
from cmn_conformance.judged import NotAsked, at_most, holds, near
from cmn_conformance.process import Trouble

PLACES = {"eq-simplex": "use/metrics", "eq-predict": "network/predict", "eq-data": "network/simulate", "eq-log-proper": "use/metrics",
          "eq-clf-scale": "use/classifier", "eq-stick-prior": "ideas/stick_breaking", "eq-elbo-definition": "network/elbo",
          "eq-gain": "ideas/evidence",
          "eq-reliability": "use/metrics", "eq-lpd": "use/metrics", "eq-model": "network/simulate", "eq-kl-positive": "ideas/evidence"}
CHECKS = []


class Check(NamedTuple):
    name: str
    op: str
    eq: dict
    note: str
    promises: tuple
    grade: str
    function: object


def check(name, eq, note, *promises, op="predict_proba", grade="failed"):
    """Register a check; grade is the verdict when it does not hold."""
    place = {"label": eq, "link": f"book/{PLACES[eq]}.html#equation-{eq}"}

    def register(function):
        CHECKS.append(Check(f"LB-{name}", op, place, note, promises, grade, function))
        return function
    return register


# ---- data

def clusters(rng, labels, rows, radius):
    """rows points about each of the corners of a polygon, one per label, in the order of the labels."""
    angle = 2 * np.pi * np.arange(len(labels)) / len(labels)
    centres = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    return np.repeat(centres, rows, 0) + rng.normal(size=(rows * len(labels), 2)), [label for label in labels for _ in range(rows)]


def base(lab):
    """45 rows of three classes that overlap, and 17 queries."""
    rng = lab.rng(1)
    X, y = clusters(rng, [0, 1, 2], 15, 1.5)
    mixed = rng.permutation(len(y))
    return X[mixed], [y[i] for i in mixed], 2 * rng.normal(size=(17, 2))


def fitted(lab):
    X, y, query = base(lab)
    order = lab.rng(2).permutation(len(query))
    return lab.ask(X, y, query, query[order], *[query[i:i + 1] for i in range(4)]), order


# ---- probabilities

@check("shape", "eq-predict", "one row per query and one column per class, for 3 classes and for 2")
def shape(lab):
    X, y, query = base(lab)
    two = [min(label, 1) for label in y]
    for labels, width in ((y, 3), (two, 2)):
        got = lab.raw(X, labels, query, query[:1]).proba
        yield holds(f"shape_{width}", [p.shape for p in got] == [(17, width), (1, width)],
                    f"shapes {[p.shape for p in got]}, expected {[(17, width), (1, width)]}")


@check("finite", "eq-simplex", "no NaN and no infinity")
def finite(lab):
    bad = ~np.isfinite(fitted(lab)[0].proba[0])
    yield holds("finite", not bad.any(), f"{int(bad.sum())} of {bad.size} probabilities are NaN or infinite")


@check("range", "eq-simplex", "between 0 and 1")
def within(lab):
    answer = fitted(lab)[0]
    p, slack = answer.proba[0], 4 * answer.eps
    yield at_most("largest", p.max(), 1.0, slack)
    yield at_most("minus_smallest", (-p).max(), 0.0, slack, "a negative probability")


@check("sum", "eq-simplex", "each row sums to one, to half the digits of its dtype")
def sums(lab):
    answer = fitted(lab)[0]
    total = answer.proba[0].sum(1)
    yield near("row_sums", total, np.ones_like(total), np.sqrt(answer.eps))


@check("classes", "eq-data", "classes_, where there is one, is the sorted set of labels")
def classes(lab):
    X, y, query = base(lab)
    for names in ([0, 1, 2], [11, 4, 30]):
        found = lab.raw(X, [names[label] for label in y], query).classes
        if found is None:
            raise NotAsked("classes", "no classes_; columns are taken to be the sorted labels")
        yield holds("classes", list(found) == sorted(names), f"classes_ is {found}, expected {sorted(names)}")


@check("columns", "eq-predict", "columns in the order of classes_: the labels of clusters far apart come back")
def columns(lab):
    rng = lab.rng(3)
    for labels in ([7, 3, 5], [5, 7, 3]):
        X, y = clusters(rng, labels, 12, 8.0)
        query, truth = clusters(rng, labels, 10, 8.0)
        answer = lab.ask(X, y, query)
        names = answer.classes if answer.classes is not None and len(answer.classes) == 3 else sorted(labels)
        right = np.mean([names[i] == t for i, t in zip(answer.proba[0].argmax(1), truth)])
        yield at_most("share_wrong", 1 - right, 1 / 3, 0.0, "rows get the label of another cluster")


@check("alone", "eq-predict", "the probabilities of a row do not depend on the rows asked with it")
def alone(lab):
    answer, _ = fitted(lab)
    yield near("one_by_one", np.concatenate(answer.proba[2:]), answer.proba[0][:4], np.sqrt(answer.eps))


@check("query_order", "eq-predict", "permuted queries get permuted answers")
def query_order(lab):
    answer, order = fitted(lab)
    yield near("permuted", answer.proba[1], answer.proba[0][order], np.sqrt(answer.eps))


@check("again", "eq-predict", "predicting changes nothing: the same query again gets the same answer")
def again(lab):
    answer, _ = fitted(lab)
    yield near("again", answer.again, answer.proba[0], np.sqrt(answer.eps))


@check("seed", "eq-data", "two fits with one seed are the same fit", op="fit")
def seeded(lab):
    X, y, query = base(lab)
    first = fitted(lab)[0]
    second = lab.ask(X, y, query)
    yield near("second_fit", second.proba[0], first.proba[0], np.sqrt(first.eps))


@check("data_kept", "eq-data", "fitting does not change X and y", op="fit")
def data_kept(lab):
    yield holds("kept", fitted(lab)[0].kept, "X or y is another array after fit")


@check("refit", "eq-data", "an earlier fit on other data leaves no trace", op="fit")
def refit(lab):
    X, y, query = base(lab)
    first = fitted(lab)[0]
    second = lab.ask(X, y, query, before={"X": {"shape": [20, 2], "data": lab.rng(4).normal(3, 2, size=40).tolist()}, "y": [0, 1, 2, 1] * 5})
    yield near("fitted_again", second.proba[0], first.proba[0], np.sqrt(first.eps))


@check("used", "eq-lpd", "clusters far apart: the mean log score of new rows is better than that of the class frequencies")
def easy(lab):
    rng = lab.rng(5)
    X, y = clusters(rng, [0, 1], 20, 6.0)
    query, truth = clusters(rng, [0, 1], 20, 6.0)
    p = lab.ask(X, y, query).proba[0][np.arange(40), truth]
    yield at_most("minus_log_score", -np.mean(np.log(np.maximum(p, 1e-300))), 0.9 * np.log(2), 0.0, "not a tenth better than the class frequencies")


@check("eight_classes", "eq-lpd", "160 rows sorted by class, 8 classes far apart: none of them is left out")
def eight(lab):
    rng = lab.rng(6)
    X, y = clusters(rng, range(8), 20, 20.0)
    query, truth = clusters(rng, range(8), 4, 20.0)
    got = lab.raw(X, y, query).proba[0]
    yield holds("shape", got.shape == (32, 8), f"shape {got.shape}, expected (32, 8)")
    if got.shape == (32, 8):
        each = np.log(np.maximum(got[np.arange(32), truth], 1e-300)).reshape(8, 4).mean(1)
        yield at_most("minus_log_score", -each.mean(), 0.9 * np.log(8), 0.0, "not a tenth better than the class frequencies")
        yield at_most("prior_only", (got.max(0) < 0.125).sum(), 0, 0.0, "classes that are nowhere more probable than their share")


@check("large_inputs", "eq-simplex", "columns a thousand times as large: finite, and sums of one")
def large(lab):
    X, y, query = base(lab)
    answer = lab.ask(1e3 * X, y, 1e3 * query)
    yield near("row_sums", answer.proba[0].sum(1), np.ones(len(query)), np.sqrt(answer.eps))


@check("far_query", "eq-simplex", "queries a million times as far out as the data: finite, and sums of one")
def far(lab):
    X, y, query = base(lab)
    answer = lab.ask(X, y, 1e6 * query)
    yield near("row_sums", answer.proba[0].sum(1), np.ones(len(query)), np.sqrt(answer.eps))


def refused(lab, name, words, *question):
    said = lab.refusal(*question)
    return holds(name, said is not None and ("ValueError" in said.partition(":")[0] or "TypeError" in said.partition(":")[0]),
                 f"{words}; what came: {said or 'probabilities'}")


@check("nan", "eq-data", "NaN is refused with a ValueError, in training and in a query", op="fit", grade="warned")
def nan(lab):
    X, y, query = base(lab)
    for name, where in (("training", X), ("query", query)):
        hole = where.copy()
        hole[3, 1] = np.nan
        yield refused(lab, name, f"expected a ValueError for NaN in a {name} row", *((hole, y, query) if name == "training" else (X, y, hole)))


@check("widths", "eq-data", "a query with another number of columns is refused with a ValueError", op="predict_proba", grade="warned")
def widths(lab):
    X, y, query = base(lab)
    yield refused(lab, "columns", "expected a ValueError for 3 columns after a fit of 2", X, y, np.hstack([query, query[:, :1]]))


# ---- promises

def same(lab, name, X, y, query, expected=lambda p: p, bound=True):
    """Comparisons of a fit that should be the base fit."""
    first, (X0, y0, query0) = fitted(lab)[0], base(lab)
    tolerance, of_bound = lab.tolerance(X0, y0, query0, first)
    got = lab.ask(X, y, query)
    yield near(name, got.proba[0], expected(first.proba[0]), tolerance)
    if bound and first.bound is not None:
        yield near(f"{name}_bound", got.bound, first.bound, of_bound)


@check("row_order", "eq-data", "the order of the training rows does not matter, for probabilities and bound", "row_order", op="fit")
def row_order(lab):
    X, y, query = base(lab)
    order = lab.rng(7).permutation(len(y))
    yield from same(lab, "permuted_rows", X[order], [y[i] for i in order], query)


@check("units", "eq-clf-scale", "columns in other units, and shifted, change nothing", "units", op="fit")
def units(lab):
    X, y, query = base(lab)
    for name, scale, shift in (("rescaled", [1000.0, 1 / 64], [0.0, 0.0]), ("shifted", [1.0, 1.0], [20.0, -3.0])):
        yield from same(lab, name, X * scale + shift, y, query * scale + shift)


@check("label_names", "eq-data", "labels with other names in the same order, also strings, change nothing", "label_names", op="fit")
def label_names(lab):
    X, y, query = base(lab)
    for name, names in (("renumbered", [-3, 40, 1000]), ("strings", ["ant", "bee", "cow"])):
        yield from same(lab, name, X, [names[label] for label in y], query)
        found = lab.ask(X, [names[label] for label in y], query).classes
        if found is not None:
            yield holds(f"{name}_classes", list(found) == names, f"classes_ is {found}, expected {names}")


@check("class_order", "eq-data", "exchanged classes are exchanged columns", "class_order", op="fit")
def class_order(lab):
    X, y, query = base(lab)
    yield from same(lab, "exchanged", X, [[2, 0, 1][label] for label in y], query, lambda p: p[:, [1, 2, 0]])


# ---- the bound

def labelings(lab, rows, n_classes):
    """Bounds of every labeling of these rows that the estimator can be asked."""
    lab.bounded(*base(lab))
    told, X = lab.can.get("classes"), lab.rng(8).normal(size=(rows, 2))
    more = {"classes": list(range(n_classes))} if told else {}
    return {y: float(lab.bounded(X, list(y), X, **more).bound) for y in product(range(n_classes), repeat=rows) if told or len(set(y)) == n_classes}


def total(name, bounds):
    logs = np.array(list(bounds.values()))
    return at_most(name, np.exp(np.logaddexp.reduce(logs)) if len(logs) else 0.0, 1.0, 1e-8 * len(logs),
                   f"the sum over {len(logs)} labelings of exp(bound)")


@check("bound_sign", "eq-elbo-definition", "ln p(y | X) of labels is at most 0, and so is a bound below it", op="bound")
def bound_sign(lab):
    X, y, query = base(lab)
    yield at_most("bound", lab.bounded(X, y, query).bound, 0.0)


@check("labelings", "eq-elbo-definition", "exp(bound) is at most p(y | X), and these sum to one over all labelings of the rows", op="bound")
def all_labelings(lab):
    yield total("two_classes", labelings(lab, 4, 2))
    yield total("three_classes", labelings(lab, 3, 3))


def one_row(lab, n_classes):
    """{label: bound} of one row; of the row twice where one is refused: p(y, y) <= p(y)."""
    lab.bounded(*base(lab))
    if not lab.can.get("classes"):
        raise NotAsked("classes", "cannot be told the classes: one row knows one of them")
    X, out = lab.rng(9).normal(size=(1, 2)), {}
    for label in range(n_classes):
        try:
            answer = lab.bounded(X, [label], X, classes=list(range(n_classes)))
        except Trouble as trouble:
            if trouble.kind != "errored":
                raise
            answer = lab.bounded(np.repeat(X, 2, 0), [label] * 2, X, classes=list(range(n_classes)))
        out[label] = float(answer.bound)
    return out


@check("one_row", "eq-stick-prior", "the evidence of one row is the prior probability of its class: the bound is not above it, for any class",
       "prior", op="bound")
def evidence(lab):
    given = lab.promises["prior"]
    for n_classes in ((2, 3) if given in ("", "sticks", "uniform") else (len(given.split(",")),)):
        log_prior = np.log(prior_probabilities(given, n_classes))
        bounds = one_row(lab, n_classes)
        yield at_most(f"bound_{n_classes}_classes", list(bounds.values()), log_prior, 1e-8 * (1 + np.abs(log_prior)), "above ln P(class)")


@check("one_row_sum", "eq-elbo-definition", "one row: exp(bound) summed over its label is at most one, whatever the prior", op="bound")
def evidence_sum(lab):
    yield total("labels", one_row(lab, 3))


@check("trace", "eq-gain", "the bound never falls along its trace", op="bound")
def trace(lab):
    X, y, query = base(lab)
    steps = lab.ask(X, y, query).trace
    if steps is None or len(steps) < 2:
        raise NotAsked("bound", "no trace of the bound: no trace_, elbo_trace_ or bound_trace_ of two entries")
    yield never_falls("trace", steps, len(y))


def never_falls(name, steps, rows):
    fall = -np.diff(steps)
    return at_most(name, fall, 0.0, 1e-9 * (rows + np.abs(steps[1:])), "it falls by this much")


@check("iterations", "eq-gain", "more iterations never lower the bound", op="bound")
def iterations(lab):
    if not lab.can.get("iterations"):
        raise NotAsked("bound", "no parameter max_sweeps, n_sweeps, max_iter, n_iter, max_iterations or n_iterations")
    X, y, query = base(lab)
    yield never_falls("bound", np.array([float(lab.bounded(X, y, query, iterations=n).bound) for n in (1, 2, 4, 8, 16, 32)]), len(y))


@check("score_of_bound", "eq-elbo-definition", "sum_n ln p_q(y_n | x_n) = sum_n ln E_q p >= E_q sum_n ln p >= bound: "
       "the training rows' log score is not below it (Jensen; for one q, integrated out or at the mean of a concave log)", op="bound")
def score_of_bound(lab):
    X, y, _ = base(lab)
    answer = lab.bounded(X, y, X)
    score = np.log(np.maximum(answer.proba[0][np.arange(len(y)), y], 1e-300)).sum()
    yield at_most("bound", answer.bound, score, 1e-8 * (1 + abs(score)), "the bound is above the log score of its own rows")


@check("doubled", "eq-elbo-definition", "every row twice: at the best q, 2 L <= L(doubled) <= L, since E ln p <= 0. "
       "A warning: two local optima may differ",
       op="bound", grade="warned")
def doubled(lab):
    X, y, query = base(lab)
    once, twice = (float(lab.bounded(A, b, query).bound) for A, b in ((X, y), (np.repeat(X, 2, 0), [label for label in y for _ in range(2)])))
    slack = 1e-4 * len(y)
    yield at_most("doubled", twice, once, slack, "above the bound of the rows once")
    yield at_most("twice_single", 2 * once, twice, slack, "below twice the bound of the rows once")


# ---- calibration

@check("balance", "eq-model", "data drawn from the prior, two classes: relabeling is a symmetry of the prior, so 1[y = 0] - p_0 averages to 0 "
       "for a right mean field as well, however sure it is; the tolerance is 6 standard errors over data sets", "calibration")
def balance(lab):
    found = calibration_of(lab)
    yield near("mean_residual", found.balance, 0.0, 6 * found.balance_error)


@check("surer_than_memory", "eq-reliability", "data drawn from the prior: confidence minus accuracy is beyond that of a rule that remembers the "
       "nearest row and is certain; no mean field that is at least as accurate can be", "calibration")
def surer(lab):
    found = calibration_of(lab)
    yield at_most("over_confidence", found.over, found.memory, 6 * found.memory_error)


@check("calibration", "eq-reliability", "a warning only: under the prior the exact predictive has confidence equal to accuracy; "
       "a mean field, even a right one, is too narrow and need not have it. "
       "The tolerance is 6 standard errors over data sets plus the gap of a mean field in the one case "
       "where both are known, logistic regression", "calibration", grade="warned")
def calibration(lab):
    found = calibration_of(lab)
    yield near("over_confidence", found.over, 0.0, 6 * found.over_error + found.gap)
