"""What is missing of a study, in which order, and how one cell of it becomes a record."""

import time
from itertools import zip_longest

from experiments import store
from experiments.pool import run_many
from experiments.provenance import Clock, provenance


def needs_of(module):
    """The function that says what a cell of a study needs."""
    return getattr(module, "needs", lambda cell: ())


def stages(module, records, cells, again=False):
    """[[cells]]: what is to run, those that others need before these; the needs of several cells take turns."""
    needs, depth = needs_of(module), {}

    def visit(cell):
        if cell in depth or (cell in records and not again):
            return
        mine = list(needs(cell))
        for other in mine:
            visit(other)
        depth[cell] = 1 + max((depth.get(other, 0) for other in mine), default=0)

    missing = [cell for cell in cells if again or cell not in records]
    for turn in zip_longest(*(list(needs(cell)) for cell in missing)):
        for cell in turn:
            if cell is not None:
                visit(cell)
    for cell in missing:
        visit(cell)
    return [[cell for cell in depth if depth[cell] == level] for level in range(1, max(depth.values(), default=0) + 1)]


def make(name, module, cell, records, data_home=None, models=None):
    """The record of a cell, run here and now."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        clock = Clock()
        body = module.run(cell, records, data_home, models)
    origin = provenance(f"python -m experiments run {name} --only {store.key(cell)}", clock, **body.pop("provenance", {}))
    return {"cell": cell._asdict(), **body, "provenance": origin}


def run_stages(name, module, todo, place, jobs=1, budget=None, progress=None, **options):
    """Run the stages one after the other, each with what is stored by then.   -> (number done, {cell: error}, number left)

    A cell whose needs failed, or were not started, is left.
    """
    end, done, failed, left = time.monotonic() + 60 * (budget or 0), 0, {}, 0
    for cells in todo:
        records = store.read(place, module.Cell)
        ready = [cell for cell in cells if all(other in records for other in needs_of(module)(cell))]
        rest = (end - time.monotonic()) / 60 if budget else None
        some = run_many(ready, lambda cell: make(name, module, cell, records, **options),
                        lambda record: store.append(place, record, module.Cell), jobs, rest, progress) \
            if rest is None or rest > 0 else (0, {}, len(ready))
        done, failed, left = done + some[0], failed | some[1], left + some[2] + len(cells) - len(ready)
    return done, failed, left
