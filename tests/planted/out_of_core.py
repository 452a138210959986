"""Faults for the fit whose rows pass by."""
TESTS = ("test_out_of_core.py",)
FAULTS = [
    ("sums-of-the-last-portion-only", "prep, last = prepare(s.parameters), min(s.row + self.portion, self.N)", "prep, last, total = prepare(s.parameters), min(s.row + self.portion, self.N), None", TESTS),
    ("tilts-not-handed-on", "self.tilts.write(s.sweep, block, table if gamma is None else", "self.tilts.write(s.sweep, block, 0 * table if gamma is None else", TESTS),
    ("first-tilts-uniform", "np.repeat(0.25 * b[:, None, :]", "np.repeat(0.25 + 0 * b[:, None, :]", TESTS),
    ("old-tilts-after-a-resume", "return s._replace(sums=total, row=last, mark=mark), None", "return s._replace(sums=total, row=last, mark=mark, sweep=0), None", TESTS),
    ("marks-unchecked", "if t and not self.begun:\n            self.check(s)", "pass", TESTS),
    ("stream-not-reopened", "if block != self.next:", "if self.next is None:", TESTS),
    ("rows-of-the-last-block-kept", "self.kept[block] = rows", "self.kept[0] = rows", TESTS),
    ("rule-by-the-rows-of-a-block", "Rows(None, np.empty((0, self.N)), None)", "Rows(None, np.empty((0, self.size)), None)", TESTS),
    ("bound-of-the-sweep-before-forgotten", "elbo = () if s.bound is None else (s.bound,)", "elbo = ()", TESTS),
    ("budget-ignored", "in_files = path is not None or tilt * N > budget", "in_files = path is not None", TESTS),
    ("rows-kept-without-room", "keep = (laid + (0 if in_files else tilt)) * N <= budget", "keep = True", TESTS),
    ("start-from-unscaled-rows", "(sample.X - mean) / scale, label_codes", "sample.X, label_codes", TESTS),
    ("one-sample-for-all-starts", "sample, L = found.samples[i], len(classes)", "sample, L = found.samples[0], len(classes)", TESTS),
    ("another-seed-goes-on", "kept = None if isinstance(rng, Integral) else stored_generator(checkpoint)", "kept = stored_generator(checkpoint)", TESTS),
    ("saddle-has-converged", "state.converged and not saddle,\n                             L", "state.converged,\n                             L", TESTS),
    ("elbo-keeps-the-worst", "max(est.fits_, key=lambda result: result.elbo[-1])", "min(est.fits_, key=lambda result: result.elbo[-1])", TESTS),
]
