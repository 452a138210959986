"""Which cells there are, in the order in which they should run: settings.toml, read."""

import tomllib
from pathlib import Path
from typing import NamedTuple

with open(Path(__file__).parent / "settings.toml", "rb") as file:
    DATA = tomllib.load(file)
SETS = DATA["sets"]
DATASETS = tuple(SETS)
TABLE_ROWS = {name: entry["table"] for name, entry in SETS.items() if "table" in entry}   # the fits that all methods run from five seeds
TABLE_LIMIT = DATA["table"]["limit"]


class Cell(NamedTuple):
    """One run: a data set, so many of its training rows, a method, the seed of the start."""
    dataset: str
    n_train: int
    method: str
    seed: int

    @property
    def key(self):
        return f"{self.dataset}/{self.n_train}/{self.method}/{self.seed}"


class Setting(NamedTuple):
    """How a method of the grid is run: a method of CMNClassifier and its options."""
    method: str
    options: dict


SETTINGS = {name: Setting(entry["method"], entry.get("options", {})) for name, entry in DATA["methods"].items()}
# where a step is dear, {method: (rows, options) for sets of more than so many training rows}
SHORTER = {name: [(rule["rows"], rule["options"]) for rule in entry["shorter"]] for name, entry in DATA["methods"].items() if "shorter" in entry}
MORE_CHAINS = DATA["methods"]["nuts"]["more"]        # of NUTS, but for the largest pinwheels, which have five seeds


def options_of(cell):
    """The method's options for this cell."""
    entry, options = DATA["methods"][cell.method], dict(SETTINGS[cell.method].options)
    held = min(cell.n_train, TABLE_LIMIT) if cell.n_train == waic_size(cell.dataset) else cell.n_train
    for rule in entry.get("shorter", ()):
        if held > rule["rows"] and cell.dataset not in rule.get("spared", ()):
            options |= rule["options"]
    if {"set": cell.dataset, "rows": cell.n_train} not in entry.get("less", ()):
        options |= entry.get("more", {})
    return options


def sizes(dataset):
    """Training sizes of a data set, smallest first."""
    return list(SETS[dataset]["train"])


def experts(dataset):
    """Number of experts of a data set's network."""
    return SETS[dataset]["experts"]


def waic_size(dataset):
    """The training size at which all methods meet in the table of WAIC."""
    return SETS[dataset].get("waic") or max(n for n in sizes(dataset) if n <= TABLE_LIMIT)


def _rows(dataset, words):
    """Training sizes that the words of a row of the plan name."""
    named = {"all": sizes(dataset), "largest": sizes(dataset)[-1:], "waic": [waic_size(dataset)], "table": [TABLE_ROWS.get(dataset)]}
    return sorted({n for word in words for n in named.get(word, [word])} & set(sizes(dataset)))


def plan():
    """Every cell, most wanted first: fast methods everywhere, slow ones where they say most."""
    cells = []
    for row in DATA["plan"]:
        sets = row.get("sets") or (sorted(DATASETS, key=waic_size) if row.get("by_size") else DATASETS)
        seeds = range(*row["seeds"]) if isinstance(row["seeds"], list) else range(row["seeds"])
        cells += [Cell(dataset, n, method, seed) for method in row["methods"] for dataset in sets
                  for n in _rows(dataset, row["sizes"]) for seed in seeds]
    return list(dict.fromkeys(cells))


# Three quick cells of each method, with options that replace those of the setting; the tests run them again.
QUICK = DATA["quick"]
SMALL = {Cell(dataset, n, method, 0): entry.get("quick", {}) for method, entry in DATA["methods"].items()
         for dataset, n in QUICK["cells_of"].get(method, QUICK["cells"])}


def small_cells():
    """{cell: options} of the quick cells, with every seed of the methods that draw random numbers."""
    return {cell._replace(seed=s): options for cell, options in SMALL.items()
            for s in range(QUICK["seeds"] if DATA["methods"][cell.method]["draws_random_numbers"] else 1)}
