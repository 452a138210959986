"""Faults for the driver of runs and coordinate ascent as a learner."""
TESTS = ("test_runs.py",)
FAULTS = [
    ("run-forgets-the-last-step", "state, done = after, t + 1", "state, done = (state if t + 1 == done + most else after), t + 1", TESTS),
    ("run-ignores-the-clock", "if stop(state) or time.monotonic() - clock > seconds:", "if stop(state):", TESTS),
    ("run-any-checkpoint", 'if header["identity"] != _identity(work):', 'if not header["identity"]:', TESTS),
    ("run-more-steps-than-asked", 'if max(header["done"]) > work.total:', 'if max(header["done"]) < 0:', TESTS),
    ("run-keeps-half-a-portion", "kept = [rows[:n] for rows, n in zip(self.kept, lengths)]", "kept = [rows[:n - 1] for rows, n in zip(self.kept, lengths)]", TESTS),
    ("run-not-finite-kept", 'track.now, reason = track.before, "not finite"', 'reason = "not finite"', TESTS),
    ("run-resume-restarts-clock", 'return Run(unpack_tree(header["states"], arrays, work.kinds), header["done"], kept)',
     'return Run(unpack_tree(header["states"], arrays, work.kinds), [0 for _ in kept], kept)', TESTS),
    ("run-longest-chain-counts", "n = min(map(len, self.kept))", "n = max(map(len, self.kept))", TESTS),
    ("ascent-tilts-forgotten", "return Ascent(after.parameters, _tilts(after),", "return Ascent(after.parameters, state.tilts,", TESTS),
    ("ascent-forgets-the-last-bound", "elbo = () if state.bound is None else (state.bound,)", "elbo = ()", TESTS),
]
