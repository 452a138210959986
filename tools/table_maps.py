"""Class probabilities over the plane for the pinwheel fits of the table of methods, as small numbers in results/.

    python tools/table_maps.py FOLDER       FOLDER: where `experiments run --models FOLDER` has kept the fitted models
"""
import json
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
METHODS = ("cavi", "mle-network", "mle-exact", "bbvi", "gibbs", "nuts")
SIDE, REACH = 40, 26.0                                 # points per axis; the data lie within about 20


def plane():
    """Grid points (SIDE^2, 2), row by row from the bottom left."""
    axis = np.linspace(-REACH, REACH, SIDE)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)


def main(folder):
    from cmn_literate import CMNClassifier, __version__

    maps = {}
    for method in METHODS:
        model = CMNClassifier.load(Path(folder) / f"pinwheels-400-{method}-0.npz")
        maps[method] = np.round(1000 * model.predict_proba(plane())).astype(int).tolist()      # per mille
    out = ROOT / "results" / "table_maps.json"
    part = out.with_suffix(".part")
    part.write_text(json.dumps({
        "what": "P(class) in per mille on a grid of the plane, pinwheels, 400 rows, seed 0; rows of the grid from the bottom left",
        "command": "make results-baselines", "side": SIDE, "reach": REACH, "version": __version__, "maps": maps},
        separators=(",", ":")) + "\n")
    os.replace(part, out)
    print(f"wrote {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1])
