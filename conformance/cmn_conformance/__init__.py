"""Conformance kit: test an implementation of conditional mixture networks, in any language, equation by equation.

    python -m cmn_conformance run --adapter package.module
    python -m cmn_conformance run --command "julia adapter.jl"

The vectors, in vectors/*.json, are the product; conformance/FORMAT.md of the repository describes them.
"""

__version__ = "2026.12.4"                                 # calendar version: not older than that of any vector
