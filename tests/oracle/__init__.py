"""A slow second opinion: the mathematics of the book in plain loops, written apart from the package.

Nothing below imports `cmn_literate`. `special` holds scalar functions in 50 digits, `blocks` divergences by their definition,
`cmn` one loop per update and per term of the bound, `predict` the predictive distribution by brute-force quadrature,
`evidence` the exact log evidence of tiny problems, `montecarlo` the bound as an average of ln p - ln q over draws.
A state is a plain dict of float64 arrays with the field names of `cmn_literate.network.cavi.State`; priors are anything with the
attributes v0, a0, b0, sigma0, sigma1.
"""
from . import blocks, cmn, evidence, montecarlo, predict, special
from .cmn import OraclePriors, random_state_and_data

__all__ = ["blocks", "cmn", "evidence", "montecarlo", "predict", "special", "OraclePriors", "random_state_and_data"]
