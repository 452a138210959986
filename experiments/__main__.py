"""The command line of the experiments: python -m experiments run|report|check [study]."""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from experiments import harness, store, studies
from experiments.compare import compare, compare_metrics, sample, slacks
from experiments.grid import DATASETS, SETTINGS, SMALL, TABLE_ROWS, Cell
from experiments.report import estimate, whole_cost

COSTS = ("minus_lpd", "seconds", "cpu_seconds", "scoring_cpu_seconds", "seconds_per_step", "seconds_to_converge", "peak_mb")


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


def refuse(option, text):
    """Leave with one line on standard error."""
    print(f"experiments: {option}: {text}", file=sys.stderr)
    raise SystemExit(2)


def stored(args):
    """The records of a study, of which there must be some."""
    records = store.read(args.folder, args.module.Cell)
    if not records:
        refuse("--folder", f"expected records, got {args.folder}, which has none")
    return records


def named(module, texts):
    """The cells that --only names."""
    known = {} if hasattr(module, "parse") else {store.key(cell): cell for cell in module.plan()}
    try:
        return [module.parse(text) if hasattr(module, "parse") else known[text] for text in texts]
    except KeyError as error:
        refuse("--only", f"expected a cell of the study, such as {next(iter(known))}, got {error.args[0]!r}")
    except argparse.ArgumentTypeError as error:
        refuse("--only", str(error))


def chosen(args):
    """The cells that the options name, in the order of the plan."""
    if args.only:
        return named(args.module, args.only)
    cells = args.module.plan()
    if args.table and args.module.Cell is not Cell:
        refuse("--table", f"expected the study cells, got {args.study}")
    if args.table:
        cells = [cell for cell in cells if TABLE_ROWS.get(cell.dataset) == cell.n_train and cell.seed < 5]
    for option, entry in (("dataset", "dataset"), ("method", "method"), ("seeds", "seed")):
        wanted = getattr(args, option)
        if wanted is None:
            continue
        known = {v for cell in args.module.plan() if (v := getattr(cell, entry, None)) is not None}
        wanted = range(wanted) if option == "seeds" else wanted
        if not known.intersection(wanted) or option != "seeds" and not known.issuperset(wanted):
            refuse(f"--{option}", f"expected one of {', '.join(map(str, sorted(known))) or 'nothing'} for {args.study}, got {', '.join(map(str, wanted))}")
        cells = [cell for cell in cells if getattr(cell, entry) in wanted]
    return cells


def seconds(cell, records):
    """CPU seconds that a cell should take: by those like it, of other studies the mean of what is known, else NaN."""
    if isinstance(cell, Cell) and cell.method in SETTINGS:
        return estimate(cell, records)
    known = [cost for cost in map(whole_cost, records.values()) if np.isfinite(cost)]
    return float(np.mean(known)) if known else np.nan


def run(args):
    records, cells = store.read(args.folder, args.module.Cell), chosen(args)
    todo = harness.stages(args.module, records, cells, args.again)
    every = [cell for stage in todo for cell in stage]
    hours = sum(seconds(cell, records) for cell in every) / 3600
    print(f"{len(cells)} cells, {len(cells) - len(set(cells) & set(every))} of them stored, {len(every)} to run: "
          + ("nobody knows how long" if np.isnan(hours) else f"about {hours:.2f} CPU hours"))
    if args.dry_run:
        for cell in every:
            print(f"{store.key(cell):40s} {seconds(cell, records):9.1f} s")
        return 0
    bar = None
    if sys.stderr.isatty():
        from tqdm import tqdm

        bar = tqdm(total=len(every), unit="cell")

    def progress(cell, record):
        if bar is not None:
            bar.set_postfix_str(store.key(cell), refresh=False)
            bar.update(1)
        elif record is not None:
            scores = [f"{name} {v:.3f}" for name in ("accuracy", "lpd") if isinstance(v := record["metrics"].get(name), float)]
            print(f"{store.key(cell):40s} {record['provenance']['seconds']:9.1f} s  {'  '.join(scores)}", flush=True)

    done, failed, left = harness.run_stages(args.study, args.module, todo, args.folder, args.jobs, args.budget, progress,
                                            data_home=args.data_home, models=args.models)
    if bar is not None:
        bar.close()
    print(f"{done} cells done, {len(failed)} failed, {left} left")
    return 1 if failed else 0


def plain_report(records):
    """Lines: of every record its cell and those of its metrics that are one number."""
    for cell, record in records.items():
        numbers = [f"{name} {v:.6g}" for name, v in record["metrics"].items() if isinstance(v, (int, float))]
        yield f"{store.key(cell):40s} {', '.join(numbers)}"


def report(args):
    records = stored(args)
    if args.module.Cell is not Cell:
        print("\n".join(getattr(args.module, "report", plain_report)(records)))
        return 0
    known = {name for record in records.values() for name in record["metrics"]}
    unknown = [name for name in args.numbers if name not in known and name not in COSTS]
    if unknown:
        refuse("--numbers", f"expected some of {', '.join(sorted(known))}, {', '.join(COSTS)}, got {', '.join(unknown)}")
    print("\n".join(args.module.report(records, args.numbers, args.all_sizes)))
    if args.figures:
        from experiments.figures import save_all

        print("\n".join(map(str, save_all(records, args.figures))))
    return 0


def difference(module, cell, record, again, records):
    """What `check` says of a cell, and whether that is bad."""
    if module.Cell is not Cell:
        bad = compare_metrics(record, again, getattr(module, "TOLERANCE", 1e-6), getattr(module, "TIMED", ()))
        return "; ".join(bad) or "the same", bool(bad)
    bad = compare(record, again, slacks(cell, records))
    return "; ".join(bad) or ("the same" if not compare(record, again) else "within the spread over seeds"), bool(bad)


def check(args):
    records = stored(args)
    if args.only:
        picked = [cell for cell in named(args.module, args.only) if cell in records]
    elif args.study == "small":
        picked = [cell for cell in SMALL if cell in records]
    else:
        seed = int(np.random.SeedSequence().entropy % 10**6) if args.seed is None else args.seed
        print(f"sample {seed}: --seed {seed} draws it again")
        picked = sample(records, args.cells, args.limit, np.random.default_rng(seed))
    if not picked:
        refuse("--limit", f"no stored cell is known to have taken at most {args.limit:g} CPU seconds; --only names one")
    failed = 0
    for cell in picked:
        again = harness.make(args.study, args.module, cell, records, args.data_home)
        word, bad = difference(args.module, cell, records[cell], again, records)
        failed += bad
        print(f"{store.key(cell):40s} {word}", flush=True)
    print(f"{len(picked)} cells run again, {failed} differ")
    return 1 if failed else 0


def make_parser():
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Run, report and check the experiments.")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    p = parts.add_parser("run", help="run the cells that are missing")
    p.add_argument("--dataset", action="append", choices=DATASETS, help="only this data set (may be repeated)")
    p.add_argument("--method", action="append", help=f"only this method (may be repeated): {', '.join(SETTINGS)}, or those of the study")
    p.add_argument("--seeds", type=at_least(1), metavar="S", help="only the first S seeds")
    p.add_argument("--table", action="store_true", help="only the cells of the book's table of methods")
    p.add_argument("--again", action="store_true", help="run what is stored again")
    p.add_argument("--jobs", type=at_least(1), default=1, metavar="J", help="processes (1)")
    p.add_argument("--budget", type=at_least(0, float, above=True), metavar="MINUTES", help="start no new cell after so many minutes")
    p.add_argument("--models", type=Path, metavar="FOLDER", help="keep the fitted models in this folder, and use those that are there")
    p.add_argument("--dry-run", action="store_true", help="print the plan and the estimate of time, run nothing")
    p.set_defaults(work=run)
    q = parts.add_parser("report", help="tables of what is stored")
    q.add_argument("--numbers", nargs="+", default=["accuracy", "lpd", "ece"], help="which numbers of the records of the grid")
    q.add_argument("--all-sizes", action="store_true", help="every training size, not the largest alone")
    q.add_argument("--figures", type=Path, metavar="FOLDER", help="also write the figure of every data set into this folder")
    q.set_defaults(work=report)
    r = parts.add_parser("check", help="run a random sample of stored cells again and compare")
    r.add_argument("--cells", type=at_least(1), default=len(SETTINGS), metavar="C", help=f"how many ({len(SETTINGS)}, one of each method)")
    r.add_argument("--limit", type=at_least(0, float, above=True), default=200.0, metavar="SECONDS", help="only cells that took at most so long (200)")
    r.add_argument("--seed", type=at_least(0), help="which sample (another one each time)")
    r.set_defaults(work=check)
    for each in (p, q, r):
        each.add_argument("study", nargs="?", default="cells", choices=studies.NAMES, metavar="STUDY",
                          help=f"one of {', '.join(studies.NAMES)} (cells, the paper's grid)")
        each.add_argument("--folder", type=Path, help="where the records are (in results/)")
        each.add_argument("--data-home", help="where the CSV files are (default: $CMN_DATA, then scikit-learn)")
        if each is not q:
            each.add_argument("--only", action="append", metavar="CELL", help="this cell, e.g. iris/100/cavi/0 (may be repeated)")
    return parser


def main(argv=None):
    args = make_parser().parse_args(argv)
    args.module = studies.study(args.study)
    args.folder = args.folder or studies.place(args.study)
    try:
        return args.work(args)
    except BrokenPipeError:                                # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as error:
        refuse("error", " ".join(str(error).split()))


if __name__ == "__main__":
    sys.exit(main())
