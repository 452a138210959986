"""Records of finished cells: one line of JSON each, appended and never rewritten."""

import json
import os
import sys
from pathlib import Path


def path_of(folder, cell):
    """One file per data set and method, so that a file stays small and a diff readable."""
    return Path(folder) / f"{cell.dataset}-{cell.method}.jsonl"


def append(folder, record):
    """Add one record.  A crash leaves at most a half-written last line, which `read` drops."""
    path = path_of(folder, record_cell(record))
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, separators=(",", ":")) + "\n"
    with open(path, "a+b") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":                     # a killed run's half line must not swallow this one
                out.write(b"\n")
        out.write(line.encode())
        out.flush()
        os.fsync(out.fileno())


def record_cell(record):
    """The cell that a record is of."""
    from cmn_literate.experiments.grid import Cell

    return Cell(*(record["cell"][name] for name in Cell._fields))


def read(folder, notice=lambda text: print(text, file=sys.stderr)):
    """{cell: record} of everything stored; the last record of a cell counts, a line that is no record is named and dropped."""
    found = {}
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                found[record_cell(record)] = record
            except (ValueError, KeyError, TypeError):
                notice(f"{path}, line {number}: not a whole record, dropped")
    return found
