"""The paper's experiments as a grid of cells: one data set, one training size, one method, one seed.

    python -m cmn_literate experiments run --dry-run        what would run, and about how long
    python -m cmn_literate experiments run --jobs 2         run what is missing
    python -m cmn_literate experiments report               what is stored

Hand-written plumbing without mathematics: models come from CMNClassifier, scores from cmn_literate.use.metrics.
"""
