"""Nothing depends on the clock: random examples may take as long as they take.  Of many cases of one kind `make test` runs a sample."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings
from samples import SAMPLED

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")
gc.disable()                                        # what is imported and collected stays, and is not looked through again and again


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    if os.environ.get("CMN_CASES") == "all":
        return
    seen = dict.fromkeys(SAMPLED, 0)
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        if name in seen and not item.get_closest_marker("slow"):
            if seen[name] % SAMPLED[name]:
                item.add_marker(pytest.mark.slow)
            seen[name] += 1


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
