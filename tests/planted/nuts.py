"""Faults of NUTS: (id, old text, new text, test files that may notice)."""
TESTS = ("test_nuts.py",)

FAULTS = [
    ("nuts-turn-without-mass", "velocity = inv_mass * rho", "velocity = rho", TESTS),
    ("nuts-turn-one-end", "return not (velocity @ first > 0 and velocity @ last > 0)", "return not (velocity @ last > 0)", TESTS),
    ("nuts-weight-sign", "return Tree(point, point, point, point.p, -energy, energy, energy, fine, 1,", "return Tree(point, point, point, point.p, energy, energy, energy, fine, 1,", TESTS),
    ("nuts-accept-sign", "np.exp(min(0.0, start_energy - energy))", "np.exp(min(0.0, energy - start_energy))", TESTS),
    ("nuts-halves-not-looked-into", "if not first.fine: return first", "if not np.isfinite(first.high): return first", TESTS),
    ("nuts-new-half-kept-though-turning", "if not new.fine:\n        return old", "if not np.isfinite(new.high):\n        return old", TESTS),
    ("nuts-biased-everywhere", "(old.log_weight if biased else total)", "old.log_weight", TESTS),
    ("nuts-weight-forgets-new", "np.logaddexp(old.log_weight, new.log_weight)", "old.log_weight + 0 * new.log_weight", TESTS),
    ("nuts-always-moves", "pick = new.pick if rng.random() < np.exp(min(0.0, odds)) else old.pick", "pick = new.pick if rng.random() < 1 else old.pick", TESTS),
    ("nuts-direction-ignored", "left, right = (old, new) if forward else (new, old)", "left, right = old, new", TESTS),
    ("nuts-rho-of-the-new-half", "rho, total = left.rho + right.rho,", "rho, total = new.rho + new.rho,", TESTS),
    ("nuts-extra-check-missing", "or turning(left.rho + after, first, after, inv_mass)", "or False", TESTS),
    ("nuts-extra-check-wrong-momentum", "turning(before + right.rho, before, last, inv_mass)", "turning(after + right.rho, after, last, inv_mass)", TESTS),
    ("nuts-grows-from-the-wrong-end", "first.right if step > 0 else first.left, *rest", "first.left if step > 0 else first.right, *rest", TESTS),
    ("nuts-depth-off-by-one", "for depth in range(1, max_depth + 1):", "for depth in range(1, max_depth):", TESTS),
    ("nuts-stale-momentum", "point = point._replace(p=draw_momentum(inv_mass, point.q.shape, rng))", "point = point._replace(p=point.p + 1.0)", TESTS),
    ("nuts-momentum-without-mass", "p=draw_momentum(inv_mass, point.q.shape, rng))", "p=draw_momentum(1.0, point.q.shape, rng))", TESTS),
    ("nuts-one-sided-coin", "forward = rng.random() < 0.5", "forward = rng.random() < 0.8", TESTS),
    ("nuts-draws-with-the-last-step", "chain.step.log_step if warming else chain.step.log_mean", "chain.step.log_step", TESTS),
    ("nuts-memory-not-wiped", "inv_mass=inv_mass, step=start_step(step), moments=nothing)", "inv_mass=inv_mass, step=start_step(step), moments=chain.moments or nothing)", TESTS),
    ("nuts-one-seed-for-all-chains", "np.random.default_rng([*plan.key, chain.index, chain.done + 1])", "np.random.default_rng([*plan.key, chain.done + 1])", TESTS),
    ("nuts-same-seed-every-transition", "np.random.default_rng([*plan.key, chain.index, chain.done + 1])", "np.random.default_rng([*plan.key, chain.index, 1])", TESTS),
    ("nuts-checkpoint-of-any-start", '("nuts", plan, q0, begun)', '("nuts", plan)', TESTS),
    ("nuts-draws-one-late", "row if chain.done > plan.n_warmup else None", "row if chain.done > plan.n_warmup + 1 else None", TESTS),
]
