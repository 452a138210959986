"""The door to the conformance kit, a distribution of its own that needs numpy alone.  From a checkout of the repository:

    pip install -e . -e ./conformance
    python -m cmn_conformance run --adapter cmn_literate
"""

import sys
from pathlib import Path

ADAPTER = Path(__file__).resolve().parents[1] / "conformance/adapters/package.py"


def cmn_adapter():
    """Where the kit finds the adapter of this package, which is in the repository and not in the wheel."""
    if not ADAPTER.exists():
        raise ModuleNotFoundError("the adapter of cmn_literate is not in its wheel; from a checkout of the repository: "
                                  "pip install -e . -e ./conformance")
    return str(ADAPTER)


if __name__ == "__main__":
    sys.exit(__doc__)
