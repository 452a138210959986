"""The paper's grid: every data set, training size, method and seed of settings.toml."""

import argparse

from experiments import report as tables
from experiments.grid import DATASETS, SETTINGS, Cell, plan
from experiments.run import run_cell

__all__ = ["Cell", "PLACE", "parse", "plan", "report", "run"]
PLACE = "cells"


def parse(text):
    """A Cell from dataset/n_train/method/seed, of the plan or not."""
    try:
        dataset, n_train, method, seed = text.split("/")
        cell = Cell(dataset, int(n_train), method, int(seed))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected dataset/rows/method/seed, got {text!r}") from None
    if dataset not in DATASETS or method not in SETTINGS:
        raise argparse.ArgumentTypeError(f"expected a data set of {', '.join(DATASETS)} and a method of {', '.join(SETTINGS)}, "
                                         f"got {text!r}")
    return cell


def run(cell, records=None, data_home=None, models=None):
    return run_cell(cell, data_home, models=models)


def report(records, numbers=("accuracy", "lpd", "ece"), all_sizes=False):
    """Lines: what is planned and done, scores, and the table of WAIC."""
    return [*tables.progress_table(records), "", *tables.score_table(records, tuple(numbers), not all_sizes), "",
            *tables.waic_table(records)]
