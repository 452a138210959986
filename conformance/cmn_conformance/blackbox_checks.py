"""The checks of level B: those of both kinds of estimators, and of classifiers.  Each takes a blackbox.Lab and gives comparisons (judged.near, at_most, holds)."""

from itertools import product
from typing import NamedTuple

import numpy as np

from cmn_conformance.blackbox import prior_probabilities
from cmn_conformance.blackbox_data import clusters
from cmn_conformance.calibration import calibration_of
from cmn_conformance.judged import NotAsked, at_most, holds, near
from cmn_conformance.process import Trouble

PLACES = {"eq-simplex": "use/metrics", "eq-predict": "network/predict", "eq-data": "network/simulate", "eq-log-proper": "use/metrics",
          "eq-clf-scale": "use/classifier", "eq-stick-prior": "ideas/stick_breaking", "eq-elbo-definition": "network/elbo",
          "eq-gain": "ideas/evidence",
          "eq-reliability": "use/metrics", "eq-lpd": "use/metrics", "eq-model": "network/simulate",
          **{f"eq-reg-{name}": f"beyond/{page}" for page, names in (("regression", ("predict", "family")), ("regressor", ("mixture", "moments", "quantile")))
             for name in names}, "eq-kl-positive": "ideas/evidence"}
CHECKS = []


class Check(NamedTuple):
    name: str
    op: str
    eq: dict
    note: str
    promises: tuple
    grade: str
    function: object
    kinds: tuple


BOTH = ("classifier", "regressor")


def check(name, eq, note, *promises, op="predict_proba", grade="failed", kinds=("classifier",), into=CHECKS):
    """Register a check; grade is the verdict when it does not hold."""
    place = {"label": eq, "link": f"book/{PLACES[eq]}.html#equation-{eq}"}

    def register(function):
        into.append(Check(f"LB-{name}", op, place, note, promises, grade, function, kinds))
        return function
    return register


# ---- what is compared

def fitted(lab):
    X, y, query = lab.data()
    order = lab.rng(2).permutation(len(query))
    return lab.ask(X, y, query, query[order], *[query[i:i + 1] for i in range(4)]), order


def agree(name, got, expected, tolerance):
    """Comparisons of two answers about the same rows, part by part."""
    for part, value in expected.items():
        yield near(name if part == "proba" else f"{name}_{part}", got[part], value, tolerance[part])


def agreed(lab, name, answer, got, expected):
    """The same to half the digits."""
    return agree(name, got, expected, lab.digits(answer, lab.data()[1]))


# ---- answers

@check("shape", "eq-predict", "one row per query and one column per class, for 3 classes and for 2")
def shape(lab):
    X, y, query = lab.data()
    two = [min(label, 1) for label in y]
    for labels, width in ((y, 3), (two, 2)):
        got = lab.raw(X, labels, query, query[:1]).proba
        yield holds(f"shape_{width}", [p.shape for p in got] == [(17, width), (1, width)],
                    f"shapes {[p.shape for p in got]}, expected {[(17, width), (1, width)]}")


@check("finite", "eq-simplex", "no NaN and no infinity", kinds=BOTH)
def finite(lab):
    for part, found in fitted(lab)[0].parts[0].items():
        bad = ~np.isfinite(found)
        words = "probabilities" if part == "proba" else f"numbers of {part}"
        yield holds("finite" if part == "proba" else f"finite_{part}", not bad.any(), f"{int(bad.sum())} of {bad.size} {words} are NaN or infinite")


def sane(lab, answer):
    """What holds of any answer at all: probabilities sum to one, a forecast has a place and a width, and no NaN."""
    for part, found in answer.parts[0].items():
        if part == "proba":
            yield near("row_sums", found.sum(1), np.ones(len(found)), np.sqrt(answer.eps))
        else:
            yield holds(part, not np.isnan(found).any() and (part not in ("mean", "std", "quantiles") or np.isfinite(found).all()),
                        f"{part} is NaN, or infinite where it must not be")


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
    X, y, query = lab.data()
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


@check("alone", "eq-predict", "what is said of a row does not depend on the rows asked with it", kinds=BOTH)
def alone(lab):
    answer, _ = fitted(lab)
    one_by_one = {part: np.concatenate([table[part] for table in answer.parts[2:]]) for part in answer.parts[0]}
    yield from agreed(lab, "one_by_one", answer, one_by_one, {part: found[:4] for part, found in answer.parts[0].items()})


@check("query_order", "eq-predict", "permuted queries get permuted answers", kinds=BOTH)
def query_order(lab):
    answer, order = fitted(lab)
    yield from agreed(lab, "permuted", answer, answer.parts[1], {part: found[order] for part, found in answer.parts[0].items()})


@check("again", "eq-predict", "predicting changes nothing: the same query again gets the same answer", kinds=BOTH)
def again(lab):
    answer, _ = fitted(lab)
    yield from agreed(lab, "again", answer, answer.again, answer.parts[0])


@check("seed", "eq-data", "two fits with one seed are the same fit", op="fit", kinds=BOTH)
def seeded(lab):
    first = fitted(lab)[0]
    yield from agreed(lab, "second_fit", first, lab.ask(*lab.data()).parts[0], first.parts[0])


@check("data_kept", "eq-data", "fitting and predicting do not change X, y and the queries", op="fit", kinds=BOTH)
def data_kept(lab):
    yield holds("kept", fitted(lab)[0].kept, "X, y or a query is another array afterwards")


@check("refit", "eq-data", "an earlier fit on other data leaves no trace", op="fit", kinds=BOTH)
def refit(lab):
    first, X = fitted(lab)[0], {"shape": [20, 2], "data": lab.rng(4).normal(3, 2, size=40).tolist()}
    second = lab.ask(*lab.data(), before={"X": X, "y": lab.told([0, 1, 2, 1] * 5)["y"]})
    yield from agreed(lab, "fitted_again", first, second.parts[0], first.parts[0])


@check("pickled", "eq-data", "a fitted estimator that was pickled and read again says the same", op="fit", grade="warned", kinds=BOTH)
def pickled(lab):
    first = fitted(lab)[0]
    try:
        found = lab.ask(*lab.data(), pickled=True).parts[0]
    except Trouble as trouble:
        if trouble.kind != "errored":
            raise
        yield holds("pickled", False, f"cannot be pickled: {trouble}")
        return
    yield from agreed(lab, "pickled", first, found, first.parts[0])


@check("float32", "eq-data", "data in float32, which hold the same numbers, give the same answer to a hundredth", op="fit", grade="warned", kinds=BOTH)
def float32(lab):
    X, y, query = lab.data()
    X, query = (part.astype(np.float32).astype(float) for part in (X, query))
    first, second = lab.ask(X, y, query), lab.ask(X, y, query, float32=True)
    yield from agree("float32", second.parts[0], first.parts[0], {part: 0.01 * size for part, size in lab.sizes(y).items()})


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


@check("large_inputs", "eq-simplex", "columns a thousand times as large: finite, and sums of one", kinds=BOTH)
def large(lab):
    X, y, query = lab.data()
    yield from sane(lab, lab.ask(1e3 * X, y, 1e3 * query))


@check("far_query", "eq-simplex", "queries a million times as far out as the data: finite, and sums of one", kinds=BOTH)
def far(lab):
    X, y, query = lab.data()
    yield from sane(lab, lab.ask(X, y, 1e6 * query))


def refused(lab, name, words, *question):
    said = lab.refusal(*question)
    return holds(name, said is not None and ("ValueError" in said.partition(":")[0] or "TypeError" in said.partition(":")[0]),
                 f"{words}; what came: {said or 'an answer'}")


@check("nan", "eq-data", "NaN and infinity are refused with a ValueError, in training and in a query", op="fit", grade="warned", kinds=BOTH)
def nan(lab):
    X, y, query = lab.data()
    for word, hole in (("NaN", np.nan), ("infinity", np.inf)):
        bad_X, bad_query = X.copy(), query.copy()
        bad_X[3, 1] = bad_query[3, 1] = hole
        questions = {"training": (bad_X, y, query), "query": (X, y, bad_query)}
        if lab.kind == "regressor":
            questions["target"] = X, np.append(y[:-1], hole), query
        for name, question in questions.items():
            yield refused(lab, f"{word}_{name}", f"expected a ValueError for {word} in a {name} row", *question)


@check("widths", "eq-data", "a query with another number of columns is refused with a ValueError", op="predict_proba", grade="warned", kinds=BOTH)
def widths(lab):
    X, y, query = lab.data()
    yield refused(lab, "columns", "expected a ValueError for 3 columns after a fit of 2", X, y, np.hstack([query, query[:, :1]]))


@check("lengths", "eq-data", "X and y of different lengths are refused with a ValueError", op="fit", grade="warned", kinds=BOTH)
def lengths(lab):
    X, y, query = lab.data()
    yield refused(lab, "rows", "expected a ValueError for 45 rows and 44 targets", X, y[:-1], query)


# ---- promises

def same(lab, name, X, y, query, expected=lambda parts: parts, bound=True):
    """Comparisons of a fit that should be the base fit."""
    first, (X0, y0, query0) = fitted(lab)[0], lab.data()
    tolerance, of_bound = lab.tolerance(X0, y0, query0, first)
    got = lab.ask(X, y, query)
    yield from agree(name, got.parts[0], expected(first.parts[0]), expected(tolerance))
    if bound and first.bound is not None:
        yield near(f"{name}_bound", got.bound, first.bound, of_bound)


@check("row_order", "eq-data", "the order of the training rows does not matter, for answers and bound", "row_order", op="fit", kinds=BOTH)
def row_order(lab):
    X, y, query = lab.data()
    order = lab.rng(7).permutation(len(y))
    yield from same(lab, "permuted_rows", X[order], [y[i] for i in order], query)


@check("units", "eq-clf-scale", "columns in other units, and shifted, change nothing", "units", op="fit", kinds=BOTH)
def units(lab):
    X, y, query = lab.data()
    for name, scale, shift in (("rescaled", [1000.0, 1 / 64], [0.0, 0.0]), ("shifted", [1.0, 1.0], [20.0, -3.0])):
        yield from same(lab, name, X * scale + shift, y, query * scale + shift)


@check("column_order", "eq-data", "columns in another order, in training and query alike, change nothing", "column_order", op="fit", kinds=BOTH)
def column_order(lab):
    X, y, query = lab.data()
    yield from same(lab, "exchanged_columns", X[:, ::-1], y, query[:, ::-1])


@check("label_names", "eq-data", "labels with other names in the same order, also strings, change nothing", "label_names", op="fit")
def label_names(lab):
    X, y, query = lab.data()
    for name, names in (("renumbered", [-3, 40, 1000]), ("strings", ["ant", "bee", "cow"])):
        yield from same(lab, name, X, [names[label] for label in y], query)
        found = lab.ask(X, [names[label] for label in y], query).classes
        if found is not None:
            yield holds(f"{name}_classes", list(found) == names, f"classes_ is {found}, expected {names}")


@check("class_order", "eq-data", "exchanged classes are exchanged columns", "class_order", op="fit")
def class_order(lab):
    X, y, query = lab.data()
    yield from same(lab, "exchanged", X, [[2, 0, 1][label] for label in y], query, 
                    lambda parts: {"proba": np.take(parts["proba"], [1, 2, 0], -1) if np.ndim(parts["proba"]) else parts["proba"]})


# ---- the bound

def labelings(lab, rows, n_classes):
    """Bounds of every labeling of these rows that the estimator can be asked."""
    lab.bounded(*lab.data())
    told, X = lab.can.get("classes"), lab.rng(8).normal(size=(rows, 2))
    more = {"classes": list(range(n_classes))} if told else {}
    return {y: float(lab.bounded(X, list(y), X, **more).bound) for y in product(range(n_classes), repeat=rows) if told or len(set(y)) == n_classes}


def total(name, bounds):
    logs = np.array(list(bounds.values()))
    return at_most(name, np.exp(np.logaddexp.reduce(logs)) if len(logs) else 0.0, 1.0, 1e-8 * len(logs),
                   f"the sum over {len(logs)} labelings of exp(bound)")


@check("bound_sign", "eq-elbo-definition", "ln p(y | X) of labels is at most 0, and so is a bound below it", op="bound")
def bound_sign(lab):
    X, y, query = lab.data()
    yield at_most("bound", lab.bounded(X, y, query).bound, 0.0)


@check("labelings", "eq-elbo-definition", "exp(bound) is at most p(y | X), and these sum to one over all labelings of the rows", op="bound")
def all_labelings(lab):
    yield total("two_classes", labelings(lab, 4, 2))
    yield total("three_classes", labelings(lab, 3, 3))


def one_row(lab, n_classes):
    """{label: bound} of one row; of the row twice where one is refused: p(y, y) <= p(y)."""
    lab.bounded(*lab.data())
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


@check("trace", "eq-gain", "the bound never falls along its trace", op="bound", kinds=BOTH)
def trace(lab):
    X, y, query = lab.data()
    steps = lab.ask(X, y, query).trace
    if steps is None or len(steps) < 2:
        raise NotAsked("bound", "no trace of the bound: no trace_, elbo_trace_ or bound_trace_ of two entries")
    yield never_falls("trace", steps, len(y))


def never_falls(name, steps, rows):
    fall = -np.diff(steps)
    return at_most(name, fall, 0.0, 1e-9 * (rows + np.abs(steps[1:])), "it falls by this much")


@check("iterations", "eq-gain", "more iterations never lower the bound", op="bound", kinds=BOTH)
def iterations(lab):
    if not lab.can.get("iterations"):
        raise NotAsked("bound", "no parameter max_sweeps, n_sweeps, max_iter, n_iter, max_iterations or n_iterations")
    X, y, query = lab.data()
    yield never_falls("bound", np.array([float(lab.bounded(X, y, query, iterations=n).bound) for n in (1, 2, 4, 8, 16, 32)]), len(y))


@check("score_of_bound", "eq-elbo-definition", "sum_n ln p_q(y_n | x_n) = sum_n ln E_q p >= E_q sum_n ln p >= bound: "
       "the training rows' log score is not below it (Jensen; for one q, integrated out or at the mean of a concave log)", op="bound")
def score_of_bound(lab):
    X, y, _ = lab.data()
    answer = lab.bounded(X, y, X)
    score = np.log(np.maximum(answer.proba[0][np.arange(len(y)), y], 1e-300)).sum()
    yield at_most("bound", answer.bound, score, 1e-8 * (1 + abs(score)), "the bound is above the log score of its own rows")


@check("doubled", "eq-elbo-definition", "every row twice: at the best q, 2 L <= L(doubled) <= L, since E ln p <= 0. "
       "A warning: two local optima may differ",
       op="bound", grade="warned")
def doubled(lab):
    X, y, query = lab.data()
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
