"""The command line of the experiments."""

import argparse
import sys
from pathlib import Path

import numpy as np

from cmn_literate.experiments import store
from cmn_literate.experiments.grid import DATASETS, SETTINGS, SMALL, TABLE_ROWS, Cell, plan, small_cells
from cmn_literate.experiments.report import estimate, progress_table, score_table, value, waic_table, whole_cost

FOLDER, SMALL_FOLDER = "results/cells", "results/small"
COSTS = ("minus_lpd", "steps", "steps_decay", "steps_within_1_nat", "seconds", "cpu_seconds", "scoring_cpu_seconds", "seconds_per_step",
         "seconds_to_converge", "peak_mb", "rhat")


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


def at_least(low, kind=int, above=False):
    """A reader of command-line numbers that refuses what is below `low` (or not above it), infinite or no number."""
    def read(text):
        try:
            number = kind(text)
            good = number > low if above else number >= low
        except ValueError:
            good = False
        if not good or not np.isfinite(number):
            raise argparse.ArgumentTypeError(f"expected a number {'above' if above else 'of at least'} {low}, got {text!r}")
        return number
    return read


def stored(folder):
    """The records of a folder that must have some."""
    records = store.read(folder)
    if not records:
        raise SystemExit(f"cmn_literate: --folder: expected a folder of records, got {folder}, which has none")
    return records


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
    records = stored(args.folder)
    known = {name for record in records.values() for name in record["metrics"]}
    unknown = [name for name in args.numbers if name not in known and name not in COSTS]
    if unknown:
        raise SystemExit(f"cmn_literate: --numbers: expected some of {', '.join(sorted(known))}, {', '.join(COSTS)}, "
                         f"got {', '.join(unknown)}")
    print("\n".join([*progress_table(records), "", *score_table(records, tuple(args.numbers), not args.all_sizes), "",
                     *waic_table(records)]))
    if args.figures:
        from cmn_literate.experiments.figures import save_all

        print("\n".join(map(str, save_all(records, args.figures))))
    return 0


# how far a repeated run may be from the stored one: a climb is the same arithmetic again, and errors of rounding grow
# with the steps; a run that draws random numbers repeats its path too, unless rounding made it take another one, or the
# rule that turns random numbers into its start: then the stored run and the repeated one are two independent draws, and
# their Monte Carlo error is what the spread over seeds shows
TOLERANCE = {"cavi": 1e-6, "mle-network": 1e-3, "mle-exact": 1e-3}
SAME_PATH = 1e-6
COMPARED = ("accuracy", "lpd", "ece", "train_lpd")


def compare(stored, again, others=()):
    """Names of the numbers by which a repeated run differs from the stored one.

    others: siblings; a method without a tolerance may be off by 5 of their standard deviations.
    Scores and the end of the trace are compared, and of a climb its whole trace.
    """
    method, bad = stored["cell"]["method"], []
    seeds = [stored] * all(r["cell"]["method"] == method for r in others) + list(others)
    pairs = [(name, value(stored, name), value(again, name), [value(r, name) for r in seeds]) for name in COMPARED]
    ends = [r["trace"]["value"] for r in (stored, again, *seeds) if r.get("trace")]
    if len(ends) == 2 + len(seeds):
        pairs.append(("end of trace", ends[0][-1], ends[1][-1], [e[-1] for e in ends[2:]]))
        if method in TOLERANCE:
            if len(ends[0]) != len(ends[1]):
                bad.append(f"points of trace {len(ends[0])} -> {len(ends[1])}")
            else:
                at = int(np.argmax(np.abs(np.subtract(ends[0], ends[1]))))
                pairs.append(("trace", ends[0][at], ends[1][at], []))
    for name, a, b, known in pairs:
        if method in TOLERANCE:
            slack = TOLERANCE[method] * max(1.0, abs(a))
        else:
            slack = 5 * np.std(known, ddof=1) if others else SAME_PATH
        if not (abs(a - b) <= slack or (np.isnan(a) and np.isnan(b))):
            bad.append(f"{name} {a:.6g} -> {b:.6g}")
    return bad


def siblings(cell, records):
    """Records of the same cell from other seeds.

    NUTS with a single seed borrows those of the Gibbs sampler, which draws from the same posterior: where both have several
    seeds, their scores spread about as much.
    """
    def seeds(method):
        return [record for other, record in records.items()
                if other != cell and other._replace(seed=cell.seed) == cell._replace(method=method)]
    return seeds(cell.method) or (seeds("gibbs") if cell.method == "nuts" else [])


def check(args):
    from cmn_literate.experiments.run import run_cell

    if args.small:
        records = stored(args.folder if args.folder != Path(FOLDER) else SMALL_FOLDER)
        picked = [cell for cell in SMALL if cell in records]
    else:
        records = stored(args.folder)
        seed = int(np.random.SeedSequence().entropy % 10**6) if args.seed is None else args.seed
        print(f"sample {seed}: --seed {seed} draws it again")
        picked = sample(records, args.cells, args.limit, np.random.default_rng(seed))
    if not picked:
        raise SystemExit(f"cmn_literate: --limit: no stored cell took at most {args.limit:g} CPU seconds")
    failed = 0
    for cell in picked:
        again = run_cell(cell, args.data_home, SMALL.get(cell) if args.small else None)
        bad = compare(records[cell], again, siblings(cell, records))
        failed += bool(bad)
        word = "; ".join(bad) or ("the same" if not compare(records[cell], again) else "within the spread over seeds")
        print(f"{cell.key:40s} {word}", flush=True)
    print(f"{len(picked)} cells run again, {failed} differ")
    return 1 if failed else 0


def sample(records, cells, limit, rng):
    """So many stored cells that took at most `limit` CPU seconds, at random, one of each method in turn."""
    piles = []
    for method in SETTINGS:
        mine = [cell for cell, record in records.items() if cell.method == method and whole_cost(record) <= limit]
        piles.append([mine[i] for i in rng.permutation(len(mine))])
    turns = [pile[turn] for turn in range(max(map(len, piles), default=0)) for pile in piles if turn < len(pile)]
    return turns[:cells]


def add_parser(commands):
    """Add `experiments` to the parser of the package's command line."""
    parser = commands.add_parser("experiments", help="run and report the paper's experiments",
                                 description="Run and report the paper's experiments.")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    p = parts.add_parser("run", help="run the cells that are missing")
    p.add_argument("--dataset", action="append", choices=DATASETS, help="only this data set (may be repeated)")
    p.add_argument("--method", action="append", choices=list(SETTINGS), help="only this method (may be repeated)")
    p.add_argument("--seeds", type=at_least(1), metavar="S", help="only the first S seeds")
    p.add_argument("--only", action="append", type=parse_cell, metavar="CELL", help="this cell: dataset/rows/method/seed")
    p.add_argument("--table", action="store_true", help="the cells of the book's table of five methods")
    p.add_argument("--small", action="store_true", help="the quick cells that the tests run again")
    p.add_argument("--resume", action="store_true", help="skip what is stored (the default; --again runs it again)")
    p.add_argument("--again", action="store_true", help="run stored cells again")
    p.add_argument("--jobs", type=at_least(1), default=1, metavar="J", help="processes (1)")
    p.add_argument("--budget", type=at_least(0, float, above=True), metavar="MINUTES", help="start no new cell after so many minutes")
    p.add_argument("--models", type=Path, metavar="FOLDER", help="keep the fitted models in this folder")
    p.add_argument("--dry-run", action="store_true", help="print the plan and the estimate of time, run nothing")
    p.set_defaults(run=run)
    q = parts.add_parser("report", help="tables of what is stored")
    q.add_argument("--numbers", nargs="+", default=["accuracy", "lpd", "ece"], help="which numbers of the records")
    q.add_argument("--all-sizes", action="store_true", help="every training size, not the largest alone")
    q.add_argument("--figures", type=Path, metavar="FOLDER", help="also write the figure of every data set into this folder")
    q.set_defaults(run=report)
    r = parts.add_parser("check", help="run a random sample of stored cells again and compare")
    r.add_argument("--cells", type=at_least(1), default=len(SETTINGS), metavar="C", help=f"how many ({len(SETTINGS)}, one of each method)")
    r.add_argument("--limit", type=at_least(0, float, above=True), default=200.0, metavar="SECONDS", help="only cells that took at most so long (200)")
    r.add_argument("--seed", type=at_least(0), help="which sample (another one each time)")
    r.add_argument("--small", action="store_true", help="the quick cells instead of a sample")
    r.set_defaults(run=check)
    for each in (p, q, r):
        each.add_argument("--folder", default=FOLDER, type=Path, help=f"where the records are ({FOLDER})")
        each.add_argument("--data-home", help="where the CSV files are (default: $CMN_DATA, then scikit-learn)")
