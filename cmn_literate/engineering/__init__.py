"""The same formulas, written for the machine: packed sums over blocks of rows, starts, and the loop of a fit."""
