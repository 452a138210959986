"""Which cells there are, in the order in which they should run."""

from typing import NamedTuple

DATASETS = ("pinwheels", "waveform", "rice", "wdbc", "vehicle", "sonar", "banknote", "iris")
SEEDS = tuple(range(16))
EVERY_SIZE = ("pinwheels", "iris", "sonar")          # data sets whose every size the slow methods run as well
TABLE_ROWS = {"iris": 100, "pinwheels": 400}         # the two fits that all methods run from five seeds
NUTS_ROWS = 640                                      # NUTS sees at most so many rows of rice and waveform


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


SETTINGS = {
    "cavi": Setting("cavi", {}),
    "mle-network": Setting("mle", {"objective": "network", "n_steps": 20_000}),
    "mle-exact": Setting("mle", {"objective": "exact", "n_steps": 20_000}),
    "bbvi": Setting("bbvi", {"n_steps": 10_000}),
    "gibbs": Setting("gibbs", {"n_chains": 4, "n_warmup": 500, "n_draws": 500, "init": "cavi"}),
    "nuts": Setting("nuts", {"n_chains": 2, "n_warmup": 200, "n_draws": 50}),
}
# where a step is dear, fewer of them: this many, for sets of more than so many training rows
SHORTER = {"mle-exact": (700, 2000), "bbvi": (700, 5000)}


def options_of(cell):
    """The method's options for this cell."""
    options = dict(SETTINGS[cell.method].options)
    rows, steps = SHORTER.get(cell.method, (float("inf"), None))
    if cell.n_train > rows:
        options["n_steps"] = steps
    return options


def sizes(dataset):
    """Training sizes of a data set, smallest first."""
    from cmn_literate.datasets import training_sizes

    return [int(n) for n in training_sizes(dataset)]


def plan():
    """Every cell, most wanted first: fast methods everywhere, slow ones where they say most."""
    cells = []
    add = lambda method, dataset, ns, seeds: cells.extend(Cell(dataset, n, method, s) for n in ns for s in seeds)
    for dataset in DATASETS:
        add("cavi", dataset, sizes(dataset), SEEDS)
    for dataset in ("pinwheels", "iris"):
        add("mle-network", dataset, sizes(dataset), SEEDS)
    for dataset in DATASETS:
        if dataset not in ("pinwheels", "iris"):
            add("mle-network", dataset, sizes(dataset)[-1:], SEEDS[:4])
    for method in ("gibbs", "bbvi", "mle-exact", "nuts"):
        for dataset in ("iris", "pinwheels"):
            add(method, dataset, [TABLE_ROWS[dataset]], SEEDS[:5])
    for method in ("gibbs", "mle-exact", "bbvi"):
        for dataset in DATASETS:
            add(method, dataset, sizes(dataset) if dataset in EVERY_SIZE else sizes(dataset)[-1:], SEEDS[:4])
    for dataset in DATASETS:
        top = [n for n in sizes(dataset) if n <= NUTS_ROWS]
        add("nuts", dataset, top if dataset == "pinwheels" else top[-1:], SEEDS[:1])
    for dataset in DATASETS:
        add("mle-network", dataset, sizes(dataset), SEEDS)
    return list(dict.fromkeys(cells))
