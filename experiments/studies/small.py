"""Quick cells of every method, which the tests run again."""

from experiments.grid import Cell, small_cells
from experiments.run import run_cell
from experiments.studies.cells import parse, report

__all__ = ["Cell", "PLACE", "parse", "plan", "report", "run"]
PLACE = "small"


def plan():
    return list(small_cells())


def run(cell, records=None, data_home=None, models=None):
    return run_cell(cell, data_home, small_cells()[cell], models)
