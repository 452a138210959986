"""The experiments: the paper's grid of cells, and every other study whose records the book quotes.

    python -m experiments run [study] --dry-run     what would run, and about how long
    python -m experiments run [study] --jobs 2      run what is missing; stop and start as you like
    python -m experiments report [study]            what is stored
    python -m experiments check [study]             run a sample of what is stored again and compare

A study is a module of experiments/studies; what the cells of the grid are is data (settings.toml).  A record is one line of JSON:
cell (which run), setting (its options), metrics (what came out), provenance (command, date, commit, versions, machine, seconds) and,
of some, trace (the objective, thinned) and log_p (log probabilities of the test rows).
"""
