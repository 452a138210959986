"""What a sweep keeps of every row for the next one: in memory, or in files when there are too many rows.

Hand-written and free of mathematics. A tilt store holds a table of numbers per block of rows; what a sweep writes, the next one reads.
"""

import os
import tempfile

import numpy as np

from cmn_literate.storage import fingerprint


class MemoryTilts:
    """Tables in a list."""
    kept = False                                                        # nothing of it outlives the process

    def __init__(self):
        self.tables = {}

    def read(self, sweep, block, shape):
        """The table (width, rows) that sweep - 1 wrote for a block."""
        return self.tables[block]

    def write(self, sweep, block, table):
        self.tables[block] = table

    def settle(self, sweep, block):
        """Nothing is to be put away."""
        return ""

    def check(self, sweep, block, shape, mark):
        """Tables are gone with the process that made them."""


class FileTilts:
    """Tables in files.  Every block but the last has `size` rows, and a row `width` numbers of 8 bytes.

    path None: one temporary file, whose tables are overwritten where they are.  Else two files beside path, by turns, so that what a sweep
    reads is whole until the next one begins: a run that was killed goes on from any place that its checkpoint names."""

    def __init__(self, width, size, path=None):
        self.stride, self.kept, self.last = 8 * width * size, path is not None, None
        self.paths = [] if path is None else [f"{os.fspath(path)}.tilts{side}" for side in (0, 1)]
        self.files = [open(os.open(name, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0) for name in self.paths] or [
            tempfile.TemporaryFile(buffering=0)] * 2

    def read(self, sweep, block, shape):
        """The table (width, rows) that sweep - 1 wrote for a block.  ValueError if it is not there."""
        file, table = self.files[(sweep - 1) % 2], np.empty(shape)
        file.seek(block * self.stride)
        view = memoryview(table).cast("B")
        got = 0
        while got < len(view) and (more := file.readinto(view[got:])):
            got += more
        if got < len(view):
            raise ValueError(f"{(self.paths or ['tilts'] * 2)[(sweep - 1) % 2]}: expected the tilts of block {block}, got {got} of "
                             f"{len(view)} bytes: the checkpoint and its two files belong together")
        return table

    def write(self, sweep, block, table):
        file, self.last = self.files[sweep % 2], table
        file.seek(block * self.stride)
        view = memoryview(np.ascontiguousarray(table)).cast("B")
        while len(view):
            view = view[file.write(view):]

    def settle(self, sweep, block):
        """All that was written is on disk; a mark of the last table, which check compares."""
        if not self.kept:
            return ""
        os.fsync(self.files[sweep % 2].fileno())
        return fingerprint(self.last)

    def check(self, sweep, block, shape, mark):
        """ValueError unless the table that `sweep` wrote for a block has this mark."""
        if self.kept and fingerprint(self.read(sweep + 1, block, shape)) != mark:
            raise ValueError(f"{self.paths[sweep % 2]}: expected the tilts of the checkpoint, got others: it and its two files belong together")
