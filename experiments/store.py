"""Records of finished cells: one line of JSON each, appended and never rewritten.

A place is a file, or a folder with one file for each data set and method.
"""

import base64
import json
import os
import sys
import zlib
from pathlib import Path

import numpy as np

from experiments.grid import Cell

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def key(cell):
    """A cell as text: its entries that are set, with slashes between them."""
    return "/".join(str(entry) for entry in cell if entry is not None)


def path_of(place, cell):
    """The file of a cell's record; a folder has many, so that a file stays small and a diff readable."""
    place = Path(place)
    return place if place.suffix == ".jsonl" else place / f"{cell.dataset}-{cell.method}.jsonl"


def append(place, record, kind=Cell):
    """Add one record.  A crash leaves at most a half-written last line, which `read` drops."""
    path = path_of(place, kind(**record["cell"]))
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


def checked(record, kind):
    """The cell of a record.  ValueError, KeyError or TypeError, which say what is missing, unless it is whole."""
    for part in ("cell", "setting", "metrics", "provenance"):
        if not isinstance(record[part], dict):
            raise TypeError(f"{part}: expected an object, got {record[part]!r}")
    for name in ("command", "date", "versions"):
        record["provenance"][name]
    if kind is Cell:                                     # all tables and estimates count the cost
        cost = record["provenance"]["cpu_seconds"]
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not np.isfinite(cost):
            raise ValueError(f"cpu_seconds: expected a number, got {cost!r}")
    return kind(**record["cell"])


def read(place, kind=Cell, notice=lambda text: print(text, file=sys.stderr)):
    """{cell: record} of everything stored; the last record of a cell counts, a line that is no record is named and dropped."""
    found, place = {}, Path(place)
    for path in [place] if place.is_file() else sorted(place.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                found[checked(record, kind)] = record
            except KeyError as error:
                notice(f"{path}, line {number}: not a whole record (no {error.args[0]}), dropped")
            except (ValueError, TypeError) as error:
                notice(f"{path}, line {number}: not a whole record ({error}), dropped")
    return found


def packed(array):
    """An array as JSON: float32, compressed, as text."""
    array = np.asarray(array, dtype="<f4")
    return {"shape": list(array.shape), "float32": base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()}


def log_p(record):
    """Log probabilities of the test rows (n, L) float64, to the digits of a float32; None where the record has none."""
    kept = record.get("log_p")
    if kept is None:
        return None
    return np.frombuffer(zlib.decompress(base64.b64decode(kept["float32"])), "<f4").reshape(kept["shape"]).astype(float)
