"""Which cells there are, in the order in which they should run."""

from typing import NamedTuple

DATASETS = ("pinwheels", "waveform", "rice", "wdbc", "vehicle", "sonar", "banknote", "iris")
SEEDS = tuple(range(16))
EVERY_SIZE = ("pinwheels", "iris", "sonar")          # data sets whose every size the slow methods run as well
TABLE_ROWS = {"iris": 100, "pinwheels": 400}         # the two fits that all methods run from five seeds
TABLE_LIMIT = 640                                    # the table of WAIC: the largest training size up to so many rows,
TABLE_WHOLE = {"banknote": 800}                      # but of these sets all of them


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
# where a step is dear, fewer of them for sets of more than so many training rows; the last rule that fits counts,
# a cell of the table of WAIC is not held to have more than TABLE_LIMIT, and pinwheels are spared, since a climb
# of the likelihood that is cut short there is an early stop, another method than maximum likelihood
SHORTER = {"mle-exact": ((400, {"n_steps": 5000}), (700, {"n_steps": 2000})), "bbvi": ((700, {"n_steps": 5000}),),
           "gibbs": ((700, {"n_warmup": 250, "n_draws": 250}),)}
MORE_CHAINS = {"n_chains": 4}                        # of NUTS, but for the largest pinwheels, which have five seeds


def options_of(cell):
    """The method's options for this cell."""
    options = dict(SETTINGS[cell.method].options)
    held = min(cell.n_train, TABLE_LIMIT) if cell.n_train == waic_size(cell.dataset) else cell.n_train
    for rows, shorter in SHORTER.get(cell.method, ()):
        if held > rows and (cell.dataset, cell.method) != ("pinwheels", "mle-exact"):
            options |= shorter
    if cell.method == "nuts" and (cell.dataset, cell.n_train) != ("pinwheels", 400):
        options |= MORE_CHAINS
    return options


def sizes(dataset):
    """Training sizes of a data set, smallest first."""
    from cmn_literate.use.datasets import training_sizes

    return [int(n) for n in training_sizes(dataset)]


def waic_size(dataset):
    """The training size at which all methods meet in the table of WAIC."""
    return TABLE_WHOLE.get(dataset) or max(n for n in sizes(dataset) if n <= TABLE_LIMIT)


def plan():
    """Every cell, most wanted first: fast methods everywhere, slow ones where they say most."""
    cells = []
    add = lambda method, dataset, ns, seeds: cells.extend(Cell(dataset, n, method, s) for n in ns for s in seeds)
    for dataset in DATASETS:
        add("cavi", dataset, sizes(dataset), SEEDS)
    for dataset in ("pinwheels", "iris"):
        add("mle-network", dataset, sizes(dataset), SEEDS)
    for dataset in DATASETS:
        add("mle-network", dataset, {waic_size(dataset), sizes(dataset)[-1]}, SEEDS[:4])
    for method in ("gibbs", "bbvi", "mle-exact", "nuts"):
        for dataset in ("iris", "pinwheels"):
            add(method, dataset, [TABLE_ROWS[dataset]], SEEDS[:5])
    by_cost = sorted(DATASETS, key=waic_size)
    for seeds in (SEEDS[:2], SEEDS[2:4]):
        for method in ("gibbs", "bbvi", "mle-exact"):
            for dataset in by_cost:
                add(method, dataset, [waic_size(dataset)], seeds)
        for dataset in by_cost:
            if TABLE_ROWS.get(dataset) != waic_size(dataset):
                add("nuts", dataset, sorted({waic_size(dataset), min(waic_size(dataset), 400)} & set(sizes(dataset))), SEEDS[:1])
    for dataset in EVERY_SIZE:
        add("gibbs", dataset, sizes(dataset), SEEDS[:4])
    for dataset in DATASETS:
        add("mle-network", dataset, sizes(dataset), SEEDS[:4])
    for method in ("gibbs", "mle-exact", "bbvi"):
        for dataset in EVERY_SIZE:
            add(method, dataset, sizes(dataset), SEEDS[:4])
        for dataset in DATASETS:
            add(method, dataset, sizes(dataset)[-1:], SEEDS[:4])
    add("nuts", "pinwheels", [n for n in sizes("pinwheels") if n <= 400], SEEDS[:1])
    for dataset in DATASETS:
        add("mle-network", dataset, sizes(dataset), SEEDS)
    for dataset in DATASETS:
        for method in ("gibbs", "mle-exact", "bbvi"):
            add(method, dataset, sizes(dataset), SEEDS[:4])
    return list(dict.fromkeys(cells))


# Three quick cells of each method, with options that replace those of the setting; the tests run them again.
# The spread of a method that draws random numbers is measured over SMALL_SEEDS.
SMALL_SEEDS = tuple(range(8))
_QUICK = {"cavi": {}, "mle-network": {"n_steps": 500}, "mle-exact": {"n_steps": 500}, "bbvi": {"n_steps": 300},
          "gibbs": {"n_chains": 2, "n_warmup": 50, "n_draws": 50}, "nuts": {"n_chains": 2, "n_warmup": 20, "n_draws": 10}}
SMALL = {Cell(dataset, n, method, 0): options for method, options in _QUICK.items()
         for dataset, n in (("iris", 25), ("wdbc", 25), ("iris" if method == "nuts" else "pinwheels", 50))}


def small_cells():
    """{cell: options} of the quick cells, with every seed of the methods that draw random numbers."""
    climbs = ("cavi", "mle-network", "mle-exact")
    return {cell._replace(seed=s): options for cell, options in SMALL.items()
            for s in (SMALL_SEEDS[:1] if cell.method in climbs else SMALL_SEEDS)}
