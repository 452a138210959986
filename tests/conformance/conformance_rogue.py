"""An adapter that misbehaves once, in the way named on the command line, and is right otherwise (level 0 only).

    python tests/conformance/conformance_rogue.py MODE [NUMBER]     misbehaves on question NUMBER (3)
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "conformance/adapters"))
from python_loops import answer  # noqa: E402

mode, target, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3, 0
marker = Path(sys.argv[3]) if len(sys.argv) > 3 else None           # exists after the first misbehaviour: then no more


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


for line in sys.stdin:
    question = json.loads(line)
    if question["cmd"] == "stop":
        if mode == "stays":
            time.sleep(3600)
        if mode == "afterthought":
            say(json.dumps({"seq": question.get("seq", 4), "out": {}}) + "\n")
        break
    reply = {"seq": question["seq"], **answer(question)}
    if question["cmd"] == "start":
        reply["ops"] = ["pg_mean", "log_cosh_half"]
        if mode == "start-crash":
            sys.exit("no start for me")
        if mode == "start-protocol":
            reply["protocol"] = 99
        if mode == "start-ops":
            del reply["ops"]
        if mode == "start-hang":
            time.sleep(3600)
        if mode == "start-garbage":
            say("Welcome to Julia\n")
        say(json.dumps(reply) + "\n")
        continue
    count += 1
    if count != target or (marker and marker.exists()):
        say(json.dumps(reply) + "\n")
        continue
    if marker:
        marker.touch()
    name = question["outputs"][0]
    if mode == "crash":
        print("Traceback: out of cheese", file=sys.stderr)
        os._exit(3)
    elif mode == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "hang":
        time.sleep(3600)
    elif mode == "child":                                            # a grandchild holds the pipes open
        os.system("sleep 3600")
    elif mode == "silent":
        pass
    elif mode == "chatty":
        say("compiling ...\n" + json.dumps(reply) + "\n")
    elif mode == "flood":
        while True:
            say("x" * 10_000 + "\n")
    elif mode == "endless-line":
        while True:
            say("x" * 1_000_000)
    elif mode == "garbage":
        say("{not json\n")
    elif mode == "wrong-seq":
        say(json.dumps({**reply, "seq": 10_000}) + "\n")
    elif mode == "truncated":
        say(json.dumps(reply)[:-20])
        os._exit(0)
    elif mode == "cut-line":
        say(json.dumps(reply)[:-20] + "\n")
    elif mode == "twice":
        say((json.dumps(reply) + "\n") * 2)
    elif mode == "no-kind":
        say(json.dumps({"seq": reply["seq"]}) + "\n")
    elif mode == "list":
        say(json.dumps([reply]) + "\n")
    elif mode == "nan-literal":
        reply["out"][name] = [float("nan")] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "nan-word":
        reply["out"][name] = ["nan"] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "null":
        reply["out"][name] = [None] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "infinite":
        reply["out"][name] = [1e999] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "shape":
        reply["out"][name] = [reply["out"][name]]
        say(json.dumps(reply) + "\n")
    elif mode == "short-data":
        values = reply["out"][name]
        reply["out"][name] = {"shape": [len(values)], "data": values[:-1]}
        say(json.dumps(reply) + "\n")
    elif mode == "ragged":
        reply["out"][name] = [[1.0], [1.0, 2.0]]
        say(json.dumps(reply) + "\n")
    elif mode == "strings":
        reply["out"][name] = ["0.25"] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "booleans":
        reply["out"][name] = [True] * len(reply["out"][name])
        say(json.dumps(reply) + "\n")
    elif mode == "missing-output":
        say(json.dumps({**reply, "out": {"other": 1.0}}) + "\n")
    elif mode == "skips":
        say(json.dumps({"seq": reply["seq"], "skipped": "not today"}) + "\n")
    elif mode == "raises":
        say(json.dumps({"seq": reply["seq"], "errored": "ValueError: no"}) + "\n")
    elif mode == "out-is-list":
        say(json.dumps({"seq": reply["seq"], "out": [1, 2]}) + "\n")
    else:
        say(json.dumps(reply) + "\n")
