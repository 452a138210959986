"""Faults for tilts in files."""
TESTS = ("test_out_of_core.py",)
FAULTS = [
    ("one-file-for-both-sides", "file, self.last = self.files[sweep % 2], table", "file, self.last = self.files[0], table", TESTS),
    ("read-from-the-side-that-is-written", "file, table = self.files[(sweep - 1) % 2], np.empty(shape)", "file, table = self.files[sweep % 2], np.empty(shape)", TESTS),
    ("short-file-read-as-it-is", "if got < len(view):", "if False:", TESTS),
    ("any-mark", "if self.kept and fingerprint(self.read(sweep + 1, block, shape)) != mark:", "if False:", TESTS),
]
