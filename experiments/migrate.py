"""Records of version 0.1 in the form of 0.2: only the form changes, and this program proves it.

    python experiments/migrate.py OLD NEW       OLD: a results/ folder of 0.1; NEW: where the records go, which must not exist

Every number of the old files is found again, in its place, from the new ones; counts and sums of every metric, before and after, are
printed and compared.  Nothing is computed again.  To be removed after the release.
"""

import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import store  # noqa: E402
from experiments.run import thin_steps  # noqa: E402
from experiments.studies import baselines_gibbs, restarts, study  # noqa: E402

COUNTED = ("steps", "converged", "steps_decay", "steps_within_1_nat", "rhat")
HEAD = ("what", "command", "date", "version", "versions", "machine", "source", "sha256", "waveform_sha256", "doi", "cpu_seconds", "settings",
        "steps", "base", "nodes", "particles", "seed", "setting", "side", "reach")     # of a whole file; every line has what is of use of it
SPENT = ("seconds", "cpu_seconds", "scoring_cpu_seconds", "seconds_per_step", "peak_mb")
CHANGES = {json.dumps(change): name for change, name in (
    ({}, "base"), ({"d": 16}, "d=16"), ({"d": 64}, "d=64"), ({"K": 80}, "K=80"), ({"h": 1, "L": 2}, "h=1,L=2"),
    ({"h": 16, "L": 17}, "h=16,L=17"), ({"N": 25600}, "N=25600"))}


def some(old, names):
    return {name: old[name] for name in names if name in old}


def numbers(value, name=""):
    """(name, number) of every number in nested JSON; a list has the name of its entry."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, name)
    elif isinstance(value, (bool, int, float)):
        yield name, float(value)


def totals(value):
    """{name: (count, exact sum)} of every number in nested JSON."""
    found = defaultdict(list)
    for name, number in numbers(value):
        found[name].append(number)
    return {name: (len(v), math.fsum(v)) for name, v in found.items()}


# ---- cells of the grid

def new_cell(old):
    """One line of cells/ or small/."""
    steps = old["trace"]["step"]
    length = steps[-1] if steps else 0
    if steps != thin_steps(length).tolist():
        raise SystemExit(f"{old['cell']}: the steps of its trace do not follow from its length")
    return {"cell": old["cell"], "setting": old["setting"], "metrics": old["metrics"] | some(old, COUNTED),
            "trace": {"objective": old["objective"], "length": length, "value": old["trace"]["value"]},
            "provenance": some(old, ("command", "date", "versions", *SPENT))}


def old_cell(new):
    """`new_cell` undone."""
    metrics = {name: v for name, v in new["metrics"].items() if name not in COUNTED}
    trace = {"step": thin_steps(new["trace"]["length"]).tolist(), "value": new["trace"]["value"]}
    return {"cell": new["cell"], "setting": new["setting"], "metrics": metrics, "objective": new["trace"]["objective"], "trace": trace,
            **some(new["metrics"], COUNTED), **new["provenance"]}


# ---- studies whose records were rows of one file

def rows_of(name, old):
    """(row, names in it that changed, names that are settings) of every row of a file."""
    if name == "baselines_mle":
        return [(row, {"data": "dataset"}, ("n_steps",)) for row in old["rows"]]
    if name == "baselines_bbvi":
        return [(row, {"data": "dataset"}, ("n_experts", "n_steps")) for row in old["rows"]]
    if name == "classifier":
        return [(row, {"data": "dataset"}, ()) for row in old["runs"]]
    if name in ("early", "others"):
        return [(row, {}, ()) for row in old["rows"]]
    if name == "baselines_gibbs":
        speed = [(row | {"part": "speed", "name": text}, {}, tuple("NdKhL")) for row, text in zip(old["speed"], baselines_gibbs.SPEED)]
        iris = [(row | {"part": "iris"}, {"sampler": "name"}, ("init", "chains", "n_warmup", "n_draws", "thin")) for row in old["iris"]]
        return speed + iris + [(row | {"part": "tests"}, {"fault": "name"}, ()) for row in old["tests"]]
    if name == "runtime":
        profiles = [(row | {"part": "profile", "axis": CHANGES[json.dumps(row["change"])], "value": None}, {}, ("change", "sizes"))
                    for row in old["profiles"]]
        points = [(row | {"part": "point"}, {}, ("sizes",)) for row in old["points"]]
        return profiles + points + [(row | {"part": "run"}, {"seed": "turn"}, ()) for row in old["runs"]]
    if name == "row_scores":
        split = lambda key: dict(zip(("dataset", "n_train", "method"), (int(v) if v.isdigit() else v for v in key.split("/"))))
        exact = {"dataset": "waveform", "n_train": 3840, "method": "exact", "seeds": 1} | old["waveform/exact"]
        return [(exact, {}, ()), *((split(key) | row, {}, ()) for key, row in old["rows"].items())]
    if name == "maps":
        return [({"method": method, "map": values} | some(old, ("side", "reach")), {}, ("side", "reach")) for method, values in old["maps"].items()]
    head = ("what", "command", "date", "versions", "sha256", "setting")
    return [({"dataset": "iris", **old["setting"], **{k: v for k, v in old.items() if k not in head}}, {}, tuple(old["setting"]))]   # NUTS


def origin(old, cell):
    """Provenance of a line, from the head of its file."""
    found = {"command": old["command"], "date": old.get("date"), "versions": old.get("versions") or {"cmn_literate": old["version"]}}
    found |= some(old, ("machine", "source"))
    if "cpu_seconds" in old:
        found["study_cpu_seconds"] = old["cpu_seconds"]
    dataset = getattr(cell, "dataset", "iris")
    for name in ("sha256", "doi"):
        if dataset in old.get(name, ()):
            found[name] = old[name][dataset]
    if "waveform_sha256" in old and dataset == "waveform":
        found["sha256"] = old["waveform_sha256"]
    return found


def new_rows(name, old):
    """The lines of a file of rows; SystemExit unless every entry of every row is in its line."""
    module, lines = study(name), []
    common = {"steps": old["steps"]} if name == "early" else some(old, ("base", "nodes", "particles", "seed"))
    for row, renamed, settings in rows_of(name, old):
        row = {renamed.get(key, key): v for key, v in row.items()}
        cell = module.Cell(**some(row, module.Cell._fields))
        spent = some(row, ("cpu_seconds",))
        rest = {key: v for key, v in row.items() if key not in (*cell._fields, *settings, *spent)}
        line = {"cell": cell._asdict(), "setting": some(row, settings) | common, "metrics": rest, "provenance": origin(old, cell) | spent}
        flat = {**line["provenance"], **line["setting"], **line["cell"], **line["metrics"]}
        if any(flat[key] != v for key, v in row.items()):
            raise SystemExit(f"{name}: {row}: an entry was lost")
        lines.append(line)
    return lines


# ---- restarts, a file of columns

def new_restarts(old):
    """The lines of restarts.json: a fit or a group each."""
    found, fits = {}, restarts.parts()

    def put(cell, metrics):
        if found.setdefault(cell, metrics) != metrics:
            raise SystemExit(f"restarts: {cell}: two different records")

    def put_columns(cells, columns):
        for name, v in columns.items():
            if len(v) != len(cells):
                raise SystemExit(f"restarts: {len(v)} entries for {len(cells)} fits ({name})")
        for i, cell in enumerate(cells):
            put(cell, {name: v[i] for name, v in columns.items()})

    pick = lambda part, **wanted: [c for c in fits[part] if all(getattr(c, name) == v for name, v in wanted.items())]
    for part in ("starts", "holdout"):
        for d, by_start in old[part].items():
            for start, columns in by_start.items():
                put_columns(pick(part, dataset=d, start=start), columns)
    for d, by_start in old["experts"].items():
        for start, by_k in by_start.items():
            for k, columns in by_k.items():
                put_columns(pick("experts", dataset=d, start=start, n_experts=int(k)), columns)
    for d, by_order in old["orders"].items():
        for order, columns in by_order.items():
            put_columns(pick("orders", dataset=d, order=order), columns)
    for d, by_sweeps in old["sweeps"].items():
        for i, cell in enumerate(pick("sweeps", dataset=d)):
            put(cell, {name: [columns[name][i] for columns in by_sweeps.values()] for name in by_sweeps["10"]})
    for start, columns in old["large"].items():
        put_columns(pick("large", start=start), columns)
    for size, by_set in old["strategies"].items():
        for d, by_start in by_set.items():
            for start, metrics in by_start.items():
                put(restarts.Cell("strategies", d, start=start, size=int(size)), metrics)
    for d, by_start in old["averages"].items():
        for start, by_size in by_start.items():
            put(restarts.Cell("averages", d, start=start), {"lpd": by_size})
    for part, make in (("sets", dict), ("order_averages", dict), ("sweeps_averages", lambda v: {"scores": v})):
        for d, metrics in old[part].items():
            put(restarts.Cell(part.replace("_", " "), d), make(metrics))
    return [{"cell": cell._asdict(), "setting": {name: v for name, v in old["settings"].items() if name in ("max_sweeps", "tol", "holdout")},
             "metrics": metrics, "provenance": origin(old, cell)} for cell, metrics in found.items()]


def old_restarts(lines):
    """Parts of the old file, from the lines."""
    return restarts.tables({restarts.Cell(**line["cell"]): line for line in lines})


# ---- all of it

def compare(name, before, after):
    """Print counts and sums of every metric before and after; SystemExit if one differs."""
    a, b = totals(before), totals(after)
    for metric in sorted(a.keys() | b.keys()):
        print(f"{name:16s} {metric:32s} {a.get(metric, (0, 0))[0]:8d} {a.get(metric, (0, 0.0))[1]:24.12g} "
              f"{b.get(metric, (0, 0))[0]:8d} {b.get(metric, (0, 0.0))[1]:24.12g}")
        if a.get(metric) != b.get(metric):
            raise SystemExit(f"{name}: {metric}: before {a.get(metric)}, after {b.get(metric)}")


def read_back(place, lines, kind):
    """What the store reads where the lines were written."""
    for line in lines:
        store.append(place, line, kind)
    found = list(store.read(place, kind).values())
    if len(found) != len({json.dumps(line["cell"]) for line in lines}):
        raise SystemExit(f"{place}: {len(lines)} lines, {len(found)} records")
    return found


def as_before(name, lines, old):
    """Rows in the old names, from the lines, in the order of the old file."""
    out = []
    for line, (row, renamed, _) in zip(lines, rows_of(name, old)):
        flat = {**line["provenance"], **line["setting"], **line["cell"], **line["metrics"]}
        out.append({key: flat[renamed.get(key, key)] for key in row})
    return out


def main(old_folder, new_folder):
    old_folder, new_folder = Path(old_folder), Path(new_folder)
    if new_folder.exists():
        raise SystemExit(f"NEW: expected a folder that does not exist, got {new_folder}")
    print(f"{'file':16s} {'metric':32s} {'count':>8s} {'sum before':>24s} {'count':>8s} {'sum after':>24s}")
    for name in ("cells", "small"):
        lines = [json.loads(line) for path in sorted((old_folder / name).glob("*.jsonl")) for line in path.read_text().splitlines() if line]
        found = [old_cell(line) for line in read_back(new_folder / name, [new_cell(line) for line in lines], study(name).Cell)]
        by_key = lambda records: {json.dumps(record["cell"]): record for record in records}
        if by_key(found) != by_key(lines):
            raise SystemExit(f"{name}: a record changed")
        compare(name, list(by_key(lines).values()), list(by_key(found).values()))
    for path in sorted(old_folder.glob("*.json")):
        name, old = {"table_maps": "maps"}.get(path.stem, path.stem), json.loads(path.read_text())
        if name == "vehicle":
            if any(run not in json.loads((old_folder / "classifier.json").read_text())["runs"] for run in old["runs"]):
                raise SystemExit("vehicle.json: expected its runs in classifier.json")
            continue
        lines = new_restarts(old) if name == "restarts" else new_rows(name, old)
        found = read_back(new_folder / "studies" / f"{name}.jsonl", lines, study(name).Cell)
        if name == "restarts":
            before, after = {key: old[key] for key in old_restarts(found)}, old_restarts(found)
        else:
            before, after = [row for row, _, _ in rows_of(name, old)], as_before(name, found, old)
        values = lambda part: Counter(number for _, number in numbers(part))
        body = {key: v for key, v in old.items() if key not in HEAD}
        if before != after or not values(body) <= values(before):
            raise SystemExit(f"{name}: a record changed")
        compare(name, before, after)
    print("nothing but the form changed")


if __name__ == "__main__":
    main(*sys.argv[1:])
