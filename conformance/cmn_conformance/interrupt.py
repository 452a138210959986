"""SIGINT, SIGTERM and SIGHUP end the questions, not the report."""

import signal
import threading
from contextlib import contextmanager

from cmn_conformance.serve import Interrupted

NAMES = tuple(Interrupted.CODES)
_state = {"name": "", "armed": 0}


def _handle(number, frame):
    _state["name"] = _state["name"] or signal.Signals(number).name
    if _state["armed"]:
        raise Interrupted(_state["name"])


@contextmanager
def watch():
    """Within this block a signal raises Interrupted, in interruptible() blocks and nowhere else; only the main thread can watch."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.update(name="", armed=0)
    before = {name: signal.signal(getattr(signal, name), _handle) for name in NAMES if hasattr(signal, name)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
        _state.update(name="", armed=0)


@contextmanager
def interruptible():
    """A signal raises Interrupted here, also one that came before."""
    _state["armed"] += 1
    try:
        if _state["name"]:
            raise Interrupted(_state["name"])
        yield
    finally:
        _state["armed"] -= 1
