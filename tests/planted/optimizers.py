"""Faults for cmn_literate/roads/optimizers.py: (id, text, text with the fault, test files that may notice)."""
TESTS = ("test_optimizers.py",)

FAULTS = [
    ("belief-is-adam", "surprise = grad - m", "surprise = grad", TESTS),
    ("belief-honest-forecast", "surprise = grad - m", "surprise = grad - state.m", TESTS),
    ("belief-bias-of-the-step-before", "t = state.t + 1", "t = max(state.t, 1)", TESTS),
    ("belief-mean-not-corrected", "m * (-lr / (1 - b1**t)) / scale", "m * -lr / scale", TESTS),
    ("belief-variance-not-corrected", "np.sqrt(s / (1 - b2**t)) + eps", "np.sqrt(s) + eps", TESTS),
    ("belief-epsilon-forgotten", "surprise * surprise + eps_root", "surprise * surprise", TESTS),
    ("belief-epsilon-inside", "np.sqrt(s / (1 - b2**t)) + eps", "np.sqrt(s / (1 - b2**t) + eps)", TESTS),
    ("belief-memory-swapped", "s = b2 * state.s + (1 - b2)", "s = b2 * state.s + (1 - b1)", TESTS),
    ("maximize-downhill", "adabelief_step(-grad, climb.memory, **rates)", "adabelief_step(grad, climb.memory, **rates)", TESTS),
    ("maximize-stale-generator", "rng.bit_generator.state = climb.noise", "pass", TESTS),
    ("maximize-checkpoint-of-any-rate", "problem, x, noise, *rates.values())", "problem, x, noise)", TESTS),
    ("maximize-checkpoint-of-any-problem", '("maximize", problem, x,', '("maximize", x,', TESTS),
]
