"""A headless Chromium for the tests that look at pages."""

import pytest
from browsers import chromium


@pytest.fixture(scope="module")
def browser():
    yield from chromium()
