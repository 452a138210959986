"""Answer the questions of the conformance kit, as JSON lines on standard input and output, with Python functions.

    python -m cmn_conformance.serve package.module[:object]
    python serve.py adapter.py[:object]                  (this file needs numpy alone, so it can be copied)

An adapter is a module, or any object, with one function per operation: the arguments are the names under "in" of a case, numbers
or numpy arrays, and the value is the output, a tuple of outputs in the order of ops.json, or a dict of them. Optional attributes:

    NAME, VERSION, LANGUAGE   strings for the report
    PROFILE                   dict of the choices it makes, a value or a list of values; what it leaves out is the suite's default
    OPS                       names of the operations it has, or dict name -> function; default: every function with the name of one
    DTYPES                    ("f64", "f32") or one of them; default ("f64",)
    start(dtype)              called before the first question

In place of the functions a module, for instance that of your package, may have cmn_adapter(), which returns where the adapter is, as above.
A function with an argument "profile" gets the choices of the case, as a dict; one that raises NotImplementedError("reason") skips the case. What an adapter prints goes to standard error.
"""

import importlib
import importlib.util
import inspect
import json
import math
import os
import re
import signal
import sys
import traceback

import numpy as np

PROTOCOL = 1


class Interrupted(BaseException):
    """A signal that ends the run; its name."""
    CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
    name = property(lambda self: self.args[0])


def load(spec):
    """The adapter of "package.module", "package.module:object" or "path/to/file.py[:object]"; a module with a function cmn_adapter
    says with it where the adapter is, in the same form."""
    name, _, attribute = spec.partition(":")
    if name.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        found = importlib.util.spec_from_file_location(os.path.basename(name)[:-3], name)
        module = importlib.util.module_from_spec(found)
        sys.modules[found.name] = module
        found.loader.exec_module(module)
    else:
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        module = importlib.import_module(name)
        if not attribute and callable(where := getattr(module, "cmn_adapter", None)):
            return load(where())
    for part in filter(None, attribute.split(".")):
        module = getattr(module, part)
    return module


def _read(value, dtype):
    if isinstance(value, dict) and set(value) == {"shape", "data"}:
        data = [float(item) if isinstance(item, str) else item for item in value["data"]]
        whole = all(isinstance(item, int) for item in data)
        return np.array(data, np.int64 if whole and data else dtype).reshape(value["shape"])
    if isinstance(value, str) and value.lstrip("+-") in ("nan", "inf"):
        return float(value)
    return value


def _write(value):
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"expected numbers, got {array.dtype} from {type(value).__name__}")
    items = array.ravel().tolist()
    items = [i if isinstance(i, (int, bool)) or math.isfinite(i) else str(i) for i in items]
    return items[0] if array.ndim == 0 else {"shape": list(array.shape), "data": items}


def takes_profile(function):
    """Whether the function has an argument of that name."""
    try:
        return "profile" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class Host:
    """Answers for one adapter: a dict with "out", "skipped" or "errored" for each question."""

    def __init__(self, adapter):
        self.adapter, self.dtype = adapter, np.float64

    def function(self, op):
        table = getattr(self.adapter, "OPS", None)
        name = re.sub(r"\W", "_", op)
        if isinstance(table, dict):
            return table.get(op, table.get(name))
        if table is not None and op not in table:
            return None
        found = getattr(self.adapter, name, None)
        return found if callable(found) else None

    def start(self, message):
        a = self.adapter
        dtypes = getattr(a, "DTYPES", ("f64",))
        dtypes = [dtypes] if isinstance(dtypes, str) else list(dtypes)
        wanted = message.get("dtype", "f64")
        self.dtype = np.float32 if wanted == "f32" else np.float64
        if wanted in dtypes and hasattr(a, "start"):
            a.start(wanted)
        name = getattr(a, "NAME", getattr(a, "__name__", type(a).__name__))
        return {"protocol": PROTOCOL, "name": str(name), "version": str(getattr(a, "VERSION", "")),
                "language": str(getattr(a, "LANGUAGE", f"Python {sys.version.split()[0]}")),
                "profile": dict(getattr(a, "PROFILE", {})), "dtypes": dtypes,
                "ops": [op for op in message.get("ops", []) if self.function(op)]}

    def run(self, message):
        function = self.function(message["op"])
        if function is None:
            return {"skipped": f"{message['op']} is not one of my operations"}
        try:
            given = {name: _read(value, np.int64 if name == "y" else self.dtype) for name, value in message["in"].items()}
            if "profile" in message and "profile" not in given and takes_profile(function):
                given["profile"] = message["profile"]
            value, names = function(**given), message["outputs"]
            if not isinstance(value, dict):
                value = value if len(names) > 1 else (value,)
                if not isinstance(value, (tuple, list)) or len(value) != len(names):
                    raise TypeError(f"expected a tuple of the {len(names)} outputs {', '.join(names)}, got {type(value).__name__}"
                                    + (f" of {len(value)}" if hasattr(value, "__len__") else ""))
                value = dict(zip(names, value))
            return {"out": {str(name): _write(item) for name, item in value.items()}}
        except NotImplementedError as reason:
            return {"skipped": str(reason) or "not implemented"}
        except Interrupted:
            raise
        except BaseException as error:                   # also SystemExit: an adapter does not end the run
            if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                raise                                    # somebody pressed Ctrl-C
            last = traceback.extract_tb(error.__traceback__)[-1]
            return {"errored": f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}, line {last.lineno})"}

    def answer(self, message):
        reply = self.start(message) if message["cmd"] == "start" else self.run(message)
        return {"seq": message["seq"], **reply}


def serve_host(make_host):
    """Answer by the host that make_host() returns, until "stop" or the end of the input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)                                        # whatever the adapter prints is not an answer
    sys.stdout = sys.stderr
    host = make_host()
    for line in sys.stdin:
        message = json.loads(line)
        if message["cmd"] == "stop":
            return
        answers.write(json.dumps(host.answer(message)) + "\n")
        answers.flush()


def serve(adapter):
    """Answer for an adapter or its specification."""
    serve_host(lambda: Host(load(adapter) if isinstance(adapter, str) else adapter))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.abspath(sys.path[0] or ".") == here:
        del sys.path[0]                                  # its neighbours are not modules of the adapter
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    serve(sys.argv[1])
