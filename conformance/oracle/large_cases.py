"""Cases beyond the sizes at which something may be hard-coded: 200 rows, twelve experts, eight classes, seven latent dimensions."""

import random

import states as p
from special_cases import case

HOW = {"digits": 30}
ROWS = p.state("many-rows", N=200, K=3, h=1, L=3, d=1)
EXPERTS = p.state("many-experts", N=14, K=12, h=2, L=3, d=2)
CLASSES = p.state("many-classes", N=11, K=2, h=7, L=8, d=1)
STATES = (("rows_200", "Two hundred rows.", ROWS), ("experts_12", "Twelve experts.", EXPERTS), ("classes_8", "Eight classes, h = 7.", CLASSES))


def expectations():
    """Level 1."""
    for id, note, s in STATES[1:]:
        yield case("mng_kl", id, note, "FixedSize WrongDimension", how=HOW, **{n: s[n] for n in ("M", "V", "a", "b", "v0", "a0", "b0")})
        yield case("output_logits", id, note, "FixedSize LatentDimension", how=HOW, **{n: s[n] for n in ("mu", "Sigma", "beta1_mu", "beta1_S")})
    yield case("gate_logits", "experts_12", "Twelve experts.", "FixedSize", how=HOW, **{n: EXPERTS[n] for n in ("X", "beta0_mu", "beta0_S")})
    for id, note, s in STATES[:2]:
        yield case("categorical_entropy", id, note, "FixedSize", how=HOW, gamma=s["gamma"])


READ = {"x": ("classes_8",), "omega1": ("experts_12", "classes_8"), "omega0": ("experts_12",), "z": ("experts_12", "classes_8"),
        "beta1": ("rows_200", "experts_12", "classes_8"), "beta0": ("rows_200", "experts_12"),
        "experts": ("rows_200", "experts_12", "classes_8")}


def updates():
    """Level 2."""
    for op, wanted in READ.items():
        for id, note, s in STATES:
            if id in wanted:
                yield case(f"update_{op}", id, note, "FixedSize", how=HOW, **s)


def bound():
    """Level 3."""
    for id, note, s in STATES:
        yield case("elbo", id, note, "FixedSize", how=HOW, **s)
    yield case("elbo_output", "classes_8", "Eight classes, h = 7.", "FixedSize", how=HOW, **CLASSES)
    yield case("elbo_gate", "experts_12", "Twelve experts.", "FixedSize", how=HOW, **EXPERTS)


def trajectories():
    """Level 4."""
    for id, note, s in STATES[1:]:
        yield case("sweeps", id, note, "FixedSize UpdateOrder", profile={"inner": 1, "order": "canonical"}, options=("inner", "order"), how=HOW, **s, n_sweeps=1)


def sticks():
    """Level 0."""
    rng = random.Random("cmn-many-sticks")
    psi, weights = p.fill((3, 11), lambda: p.grid(rng, -3, 3, 32)), [p.shares(rng, 12) for _ in range(3)]
    yield case("stick_log_probs", "twelve_classes", "Eleven sticks.", "FixedSize OffByOneStick", how=HOW, psi=psi)
    yield case("stick_log_probs", "rows_80", "Eighty rows.", "FixedSize", how=HOW, psi=p.fill((80, 1), lambda: p.grid(rng, -3, 3, 32)))
    yield case("stick_counts", "twelve_classes", "Twelve classes.", "FixedSize OffByOneStick", how=HOW, weights=weights)
    yield case("stick_counts", "rows_80", "Eighty rows.", "FixedSize", how=HOW, weights=[p.shares(rng, 2) for _ in range(80)])
    yield case("stick_logits", "twelve_classes", "Twelve classes.", "FixedSize OffByOneStick", how=HOW, log_probs=p.fill((3, 12), lambda: p.grid(rng, -6, 0, 32)))
