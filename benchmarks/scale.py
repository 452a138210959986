"""From a thousand rows to ten million: the sweep's time, the memory of a fit from files, and the ways to fit them side by side.

    make scale          (a few minutes and 1.6 GB of temporary files; --rows 1000000 for a quick look)

The same measurements as the study `scale`, made anew; --store adds them to its records.
"""
import argparse

from experiments import harness, store, studies
from experiments.studies import scale

MOST_MB, EXPONENT = 700, (0.95, 1.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the file, and most rows of a sweep (10,000,000)")
    parser.add_argument("--passes", type=int, default=5, help="passes over the file (5)")
    parser.add_argument("--store", action="store_true", help="keep them as records of the study")
    args = parser.parse_args()
    records = {}
    cells = [scale.Cell("sweep", n) for n in scale.SWEEP_ROWS if n <= args.rows] + [scale.Cell("fit", args.rows, passes=args.passes)]
    for cell in cells:
        records[cell] = harness.make("scale", scale, cell, records)
        if args.store:
            store.append(studies.place("scale"), records[cell], scale.Cell)
    print("\n".join(scale.report(records)))
    sweeps = {cell.value: record["metrics"]["cpu"] for cell, record in records.items() if cell.part == "sweep"}
    slope, peak = scale.exponent(list(sweeps), list(sweeps.values())), records[cell]["metrics"]["files"]["peak_mb"]
    bad = [f"exponent {slope:.3f} not in {EXPONENT}"] * (not EXPONENT[0] <= slope <= EXPONENT[1])
    bad += [f"the fit from files held {peak} MB, more than {MOST_MB}"] * (peak > MOST_MB)
    print("; ".join(bad) or f"linear in the rows, and {peak} MB hold the fit of {args.rows:,} rows")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
