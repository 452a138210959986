"""Class probabilities over the plane for the pinwheel fits of the table of methods, as small numbers.

Fitted models are taken from the folder of --models (build/models); one that is not there is fitted, and kept.
"""

from typing import NamedTuple

import numpy as np

from experiments import grid
from experiments.run import fit, split
from experiments.store import ROOT

SIDE, REACH = 40, 26.0                                   # points per axis; the data lie within about 20


class Cell(NamedTuple):
    """A method of the grid."""
    method: str


def plan():
    return [Cell(method) for method in grid.SETTINGS]


def plane():
    """Grid points (SIDE^2, 2), row by row from the bottom left."""
    axis = np.linspace(-REACH, REACH, SIDE)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)


def run(cell, records=None, data_home=None, models=None):
    """P(class) in per mille on the plane, pinwheels, 400 rows, seed 0."""
    one = grid.Cell("pinwheels", grid.TABLE_ROWS["pinwheels"], cell.method, 0)
    data, train, _ = split(one, data_home)
    model = fit(one, data, train, models=models or ROOT / "build" / "models")
    per_mille = np.round(1000 * model.predict_proba(plane())).astype(int).tolist()
    return {"setting": {"side": SIDE, "reach": REACH}, "metrics": {"map": per_mille}}
