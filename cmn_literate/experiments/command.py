"""The command line of the experiments."""

import argparse
import sys
from pathlib import Path

import numpy as np

from cmn_literate.experiments import store
from cmn_literate.experiments.grid import DATASETS, SETTINGS, SMALL, TABLE_ROWS, Cell, plan, small_cells
from cmn_literate.experiments.report import estimate, progress_table, score_table, value, whole_cost

FOLDER, SMALL_FOLDER = "results/cells", "results/small"


def parse_cell(text):
    """A Cell from dataset/n_train/method/seed."""
    try:
        dataset, n_train, method, seed = text.split("/")
        cell = Cell(dataset, int(n_train), method, int(seed))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected dataset/rows/method/seed, got {text!r}") from None
    if dataset not in DATASETS or method not in SETTINGS:
        raise argparse.ArgumentTypeError(f"expected a data set of {', '.join(DATASETS)} and a method of {', '.join(SETTINGS)}, "
                                         f"got {text!r}")
    return cell


def chosen(args):
    """The cells that the options name, in the order of the plan."""
    if args.small:
        return list(small_cells())
    if args.only:
        return args.only
    if args.table:
        return [cell for cell in plan() if TABLE_ROWS.get(cell.dataset) == cell.n_train and cell.seed < 5]
    return [cell for cell in plan() if (not args.dataset or cell.dataset in args.dataset)
            and (not args.method or cell.method in args.method) and (args.seeds is None or cell.seed < args.seeds)]


def run(args):
    from cmn_literate.experiments.run import run_many

    if args.small and args.folder == Path(FOLDER):
        args.folder = Path(SMALL_FOLDER)
    records = store.read(args.folder)
    cells = chosen(args)
    todo = [cell for cell in cells if args.again or cell not in records]
    hours = sum(estimate(cell, records) for cell in todo) / 3600
    print(f"{len(cells)} cells, {len(cells) - len(todo)} of them stored, {len(todo)} to run: about {hours:.2f} CPU hours")
    if args.dry_run:
        for cell in todo:
            print(f"{cell.key:40s} {estimate(cell, records):9.1f} s")
        return 0
    bar = None
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=len(todo), unit="cell")

    def progress(cell, record):
        if bar is not None:
            bar.set_postfix_str(cell.key, refresh=False)
            bar.update(1)
        elif record is not None:
            print(f"{cell.key:40s} {record['seconds']:9.1f} s  accuracy {record['metrics']['accuracy']:.3f}  "
                  f"LPD {record['metrics']['lpd']:.3f}", flush=True)

    done, failed, left = run_many(todo, lambda record: store.append(args.folder, record), args.jobs, args.budget, progress,
                                  overrides=small_cells() if args.small else None, data_home=args.data_home, models=args.models)
    if bar is not None:
        bar.close()
    print(f"{done} cells done, {len(failed)} failed, {left} left")
    return 1 if failed else 0


def report(args):
    records = store.read(args.folder)
    print("\n".join([*progress_table(records), "", *score_table(records, tuple(args.numbers), not args.all_sizes)]))
    if args.figures:
        from cmn_literate.experiments.figures import save_all

        print("\n".join(map(str, save_all(records, args.figures))))
    return 0


# how far a repeated run may be from the stored one: a climb is the same arithmetic again, and errors of rounding grow
# with the steps; a run that draws random numbers may leave its path, and is held to the spread over seeds
TOLERANCE = {"cavi": 1e-6, "mle-network": 1e-3, "mle-exact": 1e-3}
COMPARED = ("accuracy", "lpd", "ece")


def compare(stored, again, others=()):
    """Names of the numbers by which a repeated run differs from the stored one.

    others: records of the same cell from other seeds; a method without a tolerance may be off by 5 of their standard deviations
    """
    method = stored["cell"]["method"]
    bad = []
    for name in COMPARED:
        a, b = value(stored, name), value(again, name)
        if method in TOLERANCE:
            slack = TOLERANCE[method] * max(1.0, abs(a))
        else:
            slack = 5 * np.std([value(r, name) for r in (stored, *others)], ddof=1) if others else 1e-6
        if not abs(a - b) <= slack:
            bad.append(f"{name} {a:.6g} -> {b:.6g}")
    return bad


def siblings(cell, records):
    """Records of the same cell from other seeds."""
    return [record for other, record in records.items() if other != cell and other._replace(seed=cell.seed) == cell]


def check(args):
    from cmn_literate.experiments.run import run_cell

    if args.small:
        records, picked = store.read(args.folder if args.folder != Path(FOLDER) else SMALL_FOLDER), list(SMALL)
    else:
        records = store.read(args.folder)
        small = [cell for cell, record in records.items() if whole_cost(record) <= args.limit]
        picked = [small[i] for i in np.random.default_rng(args.seed).permutation(len(small))[:args.cells]]
    failed = 0
    for cell in picked:
        again = run_cell(cell, args.data_home, SMALL.get(cell) if args.small else None)
        bad = compare(records[cell], again, siblings(cell, records))
        failed += bool(bad)
        print(f"{cell.key:40s} {'the same' if not bad else '; '.join(bad)}", flush=True)
    print(f"{len(picked)} cells run again, {failed} differ")
    return 1 if failed else 0


def add_parser(commands):
    """Add `experiments` to the parser of the package's command line."""
    parser = commands.add_parser("experiments", help="run and report the paper's experiments",
                                 description="Run and report the paper's experiments.")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    p = parts.add_parser("run", help="run the cells that are missing")
    p.add_argument("--dataset", action="append", choices=DATASETS, help="only this data set (may be repeated)")
    p.add_argument("--method", action="append", choices=list(SETTINGS), help="only this method (may be repeated)")
    p.add_argument("--seeds", type=int, metavar="S", help="only the first S seeds")
    p.add_argument("--only", action="append", type=parse_cell, metavar="CELL", help="this cell: dataset/rows/method/seed")
    p.add_argument("--table", action="store_true", help="the cells of the book's table of five methods")
    p.add_argument("--small", action="store_true", help="the quick cells that the tests run again")
    p.add_argument("--resume", action="store_true", help="skip what is stored (the default; --again runs it again)")
    p.add_argument("--again", action="store_true", help="run stored cells again")
    p.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (1)")
    p.add_argument("--budget", type=float, metavar="MINUTES", help="start no new cell after so many minutes")
    p.add_argument("--models", type=Path, metavar="FOLDER", help="keep the fitted models in this folder")
    p.add_argument("--dry-run", action="store_true", help="print the plan and the estimate of time, run nothing")
    p.set_defaults(run=run)
    q = parts.add_parser("report", help="tables of what is stored")
    q.add_argument("--numbers", nargs="+", default=["accuracy", "lpd", "ece"], help="which numbers of the records")
    q.add_argument("--all-sizes", action="store_true", help="every training size, not the largest alone")
    q.add_argument("--figures", type=Path, metavar="FOLDER", help="also write the figure of every data set into this folder")
    q.set_defaults(run=report)
    r = parts.add_parser("check", help="run a random sample of stored cells again and compare")
    r.add_argument("--cells", type=int, default=5, metavar="C", help="how many (5)")
    r.add_argument("--limit", type=float, default=30.0, metavar="SECONDS", help="only cells that took at most so long (30)")
    r.add_argument("--seed", type=int, default=0, help="which sample (0)")
    r.add_argument("--small", action="store_true", help="the quick cells instead of a sample")
    r.set_defaults(run=check)
    for each in (p, q, r):
        each.add_argument("--folder", default=FOLDER, type=Path, help=f"where the records are ({FOLDER})")
        each.add_argument("--data-home", help="where the CSV files are (default: $CMN_DATA, then scikit-learn)")
