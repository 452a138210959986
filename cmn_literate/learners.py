"""What a method of learning must offer, and where the methods are: a name, and the module that brings it when it is asked for."""

from collections.abc import Callable
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple


class Learner(NamedTuple):
    """One way of learning the network.

    begin      (Z, y, n_classes, settings, rng) -> Work; settings has the names of
               the estimator's options.  Its finish gives a result with .elbo or .trace
               (objective per step), .n_sweeps, .converged; where it has .parameters
               (Parameters of q), gate, experts_ and uncertainty work too
    predict_log_proba   (result, Z) -> (n, L) nats
    pack, unpack        result -> dict of arrays; (dict, settings) -> result
    options             names and defaults of the method's own options
    steps               settings -> how many steps a full run has
    objective, step     what the trace holds, and what one step is called
    advice              what to do when a run has not converged
    weights             "any", "whole" or "none": what a row may count
    copies              settings -> how many ascents it keeps at once, each with tilts of all rows
    """
    begin: Callable
    predict_log_proba: Callable
    pack: Callable
    unpack: Callable
    options: dict
    steps: Callable
    objective: str
    step: str
    advice: str
    weights: str = "none"
    copies: Callable = lambda settings: 1


# name -> "module:object", or the learner itself; "auto" stands for the one that choose_method names
LEARNERS = {"auto": "cmn_literate.beyond.several:SEVERAL",
            "cavi": "cmn_literate.engineering.runs:CAVI",
            "mle": "cmn_literate.roads.mle:MLE",
            "map": "cmn_literate.roads.mle:MAP",
            "bbvi": "cmn_literate.roads.bbvi:BBVI",
            "nuts": "cmn_literate.roads.posterior:NUTS",
            "gibbs": "cmn_literate.roads.gibbs:GIBBS",
            "shared-means": "cmn_literate.beyond.shared_means:SHARED_MEANS",
            "several": "cmn_literate.beyond.several:SEVERAL",
            "shared-map": "cmn_literate.beyond.learned_draws:LEARNED_MAP",
            "shared-bbvi": "cmn_literate.beyond.learned_draws:LEARNED_BBVI",
            "shared-nuts": "cmn_literate.beyond.learned_draws:LEARNED_NUTS",
            "shared-gibbs": "cmn_literate.beyond.learned_draws:LEARNED_GIBBS",
            "structured": "cmn_literate.beyond.lean:STRUCTURED",
            "deep": "cmn_literate.beyond.depth:DEEP"}


def find_learner(name):
    """The learner of that name.  ValueError for any other name."""
    if name not in list(LEARNERS):
        raise ValueError(f"method: expected one of {', '.join(LEARNERS)}, "
                         f"got {name!r}")
    place = LEARNERS[name]
    if not isinstance(place, str):
        return place
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def choose_method(est, in_memory):
    """The method that est.method asks for: of "auto", "several" for rows in memory, and "cavi" for others
    and with accelerate, which the members of "several" do not know; any other as it is.   -> name"""
    if est.method != "auto":
        return est.method
    return "several" if in_memory and not est.accelerate else "cavi"


def settle_method(est, in_memory):
    """Set est.method to what it comes to.  ValueError for options that this method does not have."""
    est.method = choose_method(est, in_memory)
    learner_options(est)


def learner_options(est):
    """The learner's own options, its defaults changed by est.method_options.

    ValueError for options that the method does not have.
    """
    defaults, given = find_learner(est.method).options, est.method_options or {}
    known = isinstance(given, dict) and set(given) <= set(defaults)
    if not known:
        expected = ", ".join(defaults) or "none"
        raise ValueError(f"method_options: expected a dict of options of "
                         f"{est.method!r} ({expected}), got {given!r}")
    if given.get("checkpoint") is not None and est.n_init > 1:
        raise ValueError("checkpoint: expected n_init=1, since a file holds one run; "
                         f"got n_init={est.n_init}")
    return {**defaults, **given}


def check_learner_weights(name):
    """ValueError for a method that knows no weights of rows."""
    if find_learner(name).weights == "none":
        able = [other for other in LEARNERS if find_learner(other).weights != "none"]
        raise ValueError(f"sample_weight, class_weight: method {name!r} takes no "
                         f"weights; those that do: {', '.join(able)}")


def members_of(results):
    """The fits whose forecasts are averaged: of a result that has members, these.   -> list"""
    return [one for result in results for one in getattr(result, "members", (result,))]


def not_converged(name, learner, n_steps, value):
    """What to say of a run that did not get there.   -> text"""
    return (f"{name} has not converged after {n_steps} {learner.step}s "
            f"({learner.objective} {value:.4f}): {learner.advice}")


@contextmanager
def progress_bar(verbose, total, label, learner):
    """A callback for drive that moves a bar, or None.

    verbose 0: none; 1: on a terminal; 2: always.  ImportError without tqdm."""
    if not verbose:
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("verbose needs tqdm: pip install 'cmn_literate[fit]', "
                          "or set verbose=0") from error
    with tqdm(total=total, desc=label, unit=learner.step, leave=False,
              disable=None if verbose == 1 else False) as bar:
        def update(done, value):
            bar.set_postfix_str(f"{learner.objective} {value:.2f}", refresh=False)
            bar.update(done - bar.n)
        yield update
