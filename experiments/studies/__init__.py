"""The studies, one module each; a study is added by adding its file here.

A study is a module with
    Cell                what identifies one run, a NamedTuple of plain values
    plan()              its cells, in the order in which they should run
    run(cell, records, data_home, models)
                        a record without provenance: setting, metrics and, where there are any, log_p, trace; one that has measured its
                        own seconds gives them in "provenance".  records: what is stored, {cell: record}
and, where it needs them,
    needs(cell, records)   cells that must be stored before this one, and that the plan does not want for themselves
    report(records)        lines of its tables
    parse(text)            the cell of that text; without it, one of the plan
    TOLERANCE, TIMED       how far a run may be from the stored one (1e-6), and metrics that are seconds
    BEGUN                  True while cells of the plan are missing from the store
    PLACE                  where its records are (results/studies/<name>.jsonl)
"""

import pkgutil
from importlib import import_module

from experiments import store

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def study(name):
    """The module of that study."""
    return import_module(f"experiments.studies.{name}")


def place(name):
    """File or folder of its records."""
    return store.RESULTS / getattr(study(name), "PLACE", f"studies/{name}.jsonl")


def records(name):
    """{cell: record} of what is stored of a study."""
    return store.read(place(name), study(name).Cell)


def rows(name, **wanted):
    """What is stored, in the order of the plan, a flat dict for each record: its cell, setting and metrics, and its CPU seconds if known.

    wanted: entries of the cell that all rows have, e.g. method="gp"
    """
    found = records(name)
    planned = {cell: i for i, cell in enumerate(study(name).plan())}
    cells = sorted(found, key=lambda cell: planned.get(cell, len(planned)))
    flat = [{"cpu_seconds": r["provenance"].get("cpu_seconds"), **r["cell"], **r["setting"], **r["metrics"]} for r in map(found.get, cells)]
    return [row for row in flat if all(row[entry] == v for entry, v in wanted.items())]


def origin(name):
    """The provenance of the record of a study that was made last: command, date, versions, ..."""
    return max((record["provenance"] for record in records(name).values()), key=lambda found: found["date"] or "")


def cpu_seconds(name):
    """Of all records of a study together; some know only what all of them took."""
    found = [record["provenance"] for record in records(name).values()]
    together = {p["study_cpu_seconds"] for p in found if "study_cpu_seconds" in p}
    return sum(together) + sum(p.get("cpu_seconds", 0.0) for p in found if "study_cpu_seconds" not in p)
