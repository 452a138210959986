"""The runner among adapters that behave badly: for each way, the verdict and the exit code; signals, time, noise."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cmn_conformance import catalogue, runner
from cmn_conformance.__main__ import main
from cmn_conformance.process import KEPT, NotStarted, ProcessAdapter, check_start, open_adapter, printable, read_json

ROOT = Path(__file__).resolve().parents[2]
LAST_RESORT = 900                                        # seconds; for what hangs although it should not
FEW = catalogue.select({0}, ["log_cosh_half", "pg_mean"])[:6]
HELLO = {"protocol": 1, "name": "script", "ops": ["pg_mean", "log_cosh_half"]}
SCRIPT = """import json, os, subprocess, sys, time
hello = json.loads(sys.argv[1])
for line in sys.stdin:
    question = json.loads(line)
    if question["cmd"] == "stop":
        break
    reply = hello if question["cmd"] == "start" else {"skipped": "no"}
    if question["cmd"] == "run":
        %s
    print(json.dumps({"seq": question["seq"], **reply}), flush=True)
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Child processes find the kit wherever they run."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "conformance")]))


def script(tmp_path, body="pass", hello=None):
    """A command that answers start with hello, and questions as body makes it."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT % body)
    return [sys.executable, str(path), json.dumps(HELLO if hello is None else hello)]


def patient(command, **limits):
    return ProcessAdapter(command, **{"timeout": LAST_RESORT, "first_timeout": LAST_RESORT, "start_timeout": LAST_RESORT, **limits})


# ---- what an adapter says about itself

@pytest.mark.parametrize("hello, words", [
    ({"ops": [{}]}, "ops that are no strings"), ({"ops": [1]}, "ops that are no strings"), ({"ops": ["pg_mean", ["pg_mean"]]}, "ops that are no strings"),
    ({"ops": ["pg_mean", "pg_mean"]}, "more than once: pg_mean"), ({"ops": "pg_mean"}, "no proper ops"), ({"ops": {"pg_mean": 1}}, "no proper ops"),
    ({"ops": None}, "no proper ops"), ({"protocol": True}, "speaks protocol True"), ({"protocol": "1"}, "speaks protocol '1'"),
    ({"protocol": 1.0}, "speaks protocol 1.0"), ({"protocol": None}, "speaks protocol None"), ({"dtypes": [1]}, "dtypes that are no strings"),
    ({"dtypes": ["f32"]}, "does not offer f64"), ({"name": ["x"]}, "no proper name"), ({"profile": ["gamma"]}, "no proper profile"),
    ({"ops": []}, "nothing was asked")], ids=str)
def test_malformed_start_is_refused_in_one_line(tmp_path, capfd, hello, words):
    command = script(tmp_path, hello={**HELLO, **hello})
    assert main(["run", "--quiet", "--command", " ".join(f"'{part}'" for part in command)]) == 2
    said = capfd.readouterr().err
    assert words in said and said.count("\n") == 1 and "Traceback" not in said


def test_long_names_are_cut():
    assert len(check_start({**HELLO, "name": "x" * 10**6})["name"]) == 200


# ---- in the runner's own process

@pytest.mark.parametrize("body, words", [
    ("raise SystemExit(0)", "SystemExit: 0"), ("sys.exit(0)", "SystemExit: 0"), ("os._exit(0)", r"os._exit(0)"), ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("raise GeneratorExit", "GeneratorExit"), ("raise BaseException('x')", "BaseException: x"), ("return {}", "no output")])
def test_in_process_adapter_does_not_end_the_run(tmp_path, body, words):
    (tmp_path / "leaves.py").write_text(f"import os, sys\ndef pg_mean(b, c):\n    {body}\n")
    command = [sys.executable, "-m", "cmn_conformance", "run", "--in-process", "--adapter", str(tmp_path / "leaves.py"), "--op", "pg_mean"]
    done = subprocess.run([*command, "--report", str(tmp_path / "r.json")], capture_output=True, text=True)
    out = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == 1 and {r["verdict"] for r in out["results"]} == {"failed" if words == "no output" else "errored"}
    assert all(words in r["message"] for r in out["results"]) and "Traceback" not in done.stderr


@pytest.mark.parametrize("body", ["raise SystemExit(0)", "import os\nos._exit(0)", "def start(dtype):\n    raise SystemExit(0)\ndef pg_mean(b, c): pass",
                                  "import os\ndef start(dtype):\n    os._exit(0)\ndef pg_mean(b, c): pass", "def pg_mean(b, c):"])
def test_in_process_adapter_that_leaves_at_once_is_not_a_pass(tmp_path, body):
    (tmp_path / "leaves.py").write_text(body + "\n")
    done = subprocess.run([sys.executable, "-m", "cmn_conformance", "run", "--in-process", "--adapter", str(tmp_path / "leaves.py")],
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


# ---- signals

HANGS = """open(sys.argv[2], "a").write(f"{os.getpid()} {subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)']).pid}\\n")
        time.sleep(3600)"""


def gone(pid):
    """Whether a process is no more (a zombie is nobody's child here, and counts as gone)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition):
    until = time.monotonic() + LAST_RESORT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to see processes in")
@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signal_ends_in_a_partial_report_and_no_orphan(tmp_path, name, code):
    command, pids = script(tmp_path, HANGS), tmp_path / "pids"
    (tmp_path / "r.json").write_text("old")
    asks = [sys.executable, "-m", "cmn_conformance", "run", "--level", "0", "--report", "r.json", "--junit", "r.xml", "--html", "r.html", "--badge", "r.svg",
            "--timeout", "9999", "--command", " ".join(f"'{part}'" for part in [*command, str(pids)])]
    asker = subprocess.Popen(asks, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"))
    asker.send_signal(getattr(signal, name))
    out, err = asker.communicate(timeout=LAST_RESORT)
    assert asker.returncode == code and "Traceback" not in err
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["interrupted"] == name and f"interrupted by {name}: the report is partial" in out
    kinds = [r["kind"] for r in written["results"] if r["verdict"] != "undeclared"]
    assert set(kinds) == {"interrupted"} and written["questions"] == 1 and written["levels"][0]["suite"]["asked"] == 0
    assert "interrupted" in (tmp_path / "r.svg").read_text() and (tmp_path / "r.xml").exists() and (tmp_path / "r.html").exists()
    for pid in pids.read_text().split():
        wait_for(lambda pid=pid: gone(pid))


ELSEWHERE = """import os, signal, sys, threading, time
from cmn_conformance.__main__ import main

def take_the_signal():                   # as if the system had given it to this thread: the one that waits hears nothing
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=take_the_signal, daemon=True).start()
sys.exit(main(["run", "--level", "0", "--timeout", "9999", "--first-timeout", "9999", "--command", sys.argv[2]]))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal to a thread")
def test_signal_that_does_not_wake_the_one_who_waits(tmp_path):
    command, pids = script(tmp_path, HANGS), tmp_path / "pids"
    words = " ".join(f"'{part}'" for part in [*command, str(pids)])
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, str(pids), words], capture_output=True, text=True, timeout=LAST_RESORT)
    assert done.returncode == 143 and "interrupted by SIGTERM: the report is partial" in done.stdout, done.stderr


def test_signal_before_the_first_answer(tmp_path):
    command = script(tmp_path, hello=HELLO)
    Path(command[1]).write_text("import sys, time\nopen(sys.argv[2], 'w').close()\ntime.sleep(3600)\n")
    asker = subprocess.Popen([sys.executable, "-m", "cmn_conformance", "run", "--start-timeout", "9999", "--command",
                              " ".join(f"'{part}'" for part in [*command, str(tmp_path / "up")])], stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "up").exists)
    asker.send_signal(signal.SIGTERM)
    err = asker.communicate(timeout=LAST_RESORT)[1]
    assert asker.returncode == 143 and err == "run: interrupted by SIGTERM\n"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to see processes in")
@pytest.mark.parametrize("name, code", [("SIGTERM", 143), pytest.param("SIGHUP", 129, marks=pytest.mark.slow)])
def test_signal_to_pytest_leaves_no_orphan(tmp_path, name, code):
    command, pids = script(tmp_path, HANGS), tmp_path / "pids"
    asks = [sys.executable, "-m", "pytest", "-q", "-p", "cmn_conformance.pytest_plugin", "-p", "no:cacheprovider", "--cmn-level", "0", "--cmn-timeout", "9999",
            "--cmn-command", " ".join(f"'{part}'" for part in [*command, str(pids)])]
    asker = subprocess.Popen(asks, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    wait_for(lambda: asker.poll() is not None or pids.exists() and pids.read_text().endswith("\n"))
    asker.send_signal(getattr(signal, name))
    out, err = asker.communicate(timeout=LAST_RESORT)
    assert asker.returncode == code and f"{name}: the adapter is ended" in out + err
    for pid in pids.read_text().split():
        wait_for(lambda pid=pid: gone(pid))


# ---- time

def test_first_call_has_its_own_limit(tmp_path):
    """Both are slower than --timeout, each is the first of its operation."""
    body = """time.sleep(0.2) if question["op"] not in globals().setdefault("seen", set()) else None
        seen.add(question["op"])"""
    one_each = [catalogue.select({0}, [op])[0] for op in HELLO["ops"]]
    out = runner.run(patient(script(tmp_path, body), timeout=0.1), one_each)
    assert {r["verdict"] for r in out["results"]} == {"skipped"} and out["restarts"] == 0 and len(out["results"]) == 2


def test_message_names_the_option(tmp_path):
    command = script(tmp_path, "time.sleep(3600)")
    out = runner.run(patient(command, timeout=0.3, first_timeout=0.4), FEW[:2])
    assert "no answer in 0.4 s (--first-timeout, then --timeout)" in out["results"][0]["message"]
    assert "no answer in 0.3 s (--timeout)" in out["results"][1]["message"]
    with pytest.raises(NotStarted, match=r"0\.3 s \(--start-timeout\)"):
        runner.run(patient([sys.executable, "-c", "import time; time.sleep(3600)"], start_timeout=0.3), FEW)
    with pytest.raises(ValueError, match="first_timeout"):
        open_adapter("x", first_timeout=0)


def test_restart_finds_what_was_compiled_before(tmp_path):
    body = """there = os.path.join(os.environ["CMN_CACHE_DIR"], "compiled")
        if not os.path.exists(there):
            os.makedirs(there)
            os._exit(3)
        reply = {"skipped": "compiled before, " + os.environ["JAX_COMPILATION_CACHE_DIR"]}"""
    out = runner.run(patient(script(tmp_path, body)), FEW[:2])
    assert [r["verdict"] for r in out["results"]] == ["errored", "skipped"] and out["restarts"] == 1
    folder = Path(out["results"][1]["message"].removeprefix("compiled before, "))
    assert folder.name == "jax" and not folder.parent.exists()


def test_caches_of_the_asker_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/mine")
    out = runner.run(patient(script(tmp_path, 'reply = {"skipped": os.environ["JAX_COMPILATION_CACHE_DIR"]}')), FEW[:1])
    assert out["results"][0]["message"] == "/mine"


# ---- noise

EVIL = "\x1b[2K\x1b[1A\r\n301 passed, 0 failed, 0 errored\x07\x9b1m\u202e\u2028"


def test_control_characters_are_written_out(tmp_path):
    hello = {**HELLO, "name": f"n{EVIL}", "version": f"v{EVIL}", "language": f"l{EVIL}", "ops": ["pg_mean", "log_cosh_half", f"o{EVIL}"],
             "profile": {f"p{EVIL}": f"q{EVIL}"}}
    command = script(tmp_path, """if question["op"] == "pg_mean":
            print(hello["name"], file=sys.stderr, flush=True)
            os._exit(3)
        reply = {"errored": hello["name"]} if question["seq"] % 2 else {"out": {hello["name"]: hello["name"]}}""", hello)
    files = [tmp_path / f"r.{kind}" for kind in ("json", "xml", "html", "svg")]
    done = subprocess.run([sys.executable, "-m", "cmn_conformance", "run", "--level", "0", "--command", " ".join(f"'{part}'" for part in command),
                           *(part for option, file in zip(("--report", "--junit", "--html", "--badge"), files) for part in (option, str(file)))],
                          capture_output=True, text=True)
    assert done.returncode == 1
    for words in (done.stdout, done.stderr, *(file.read_text(encoding="utf-8") for file in files)):
        assert not set(words) & (set(EVIL) - set(" ,[]") - set("\n0123456789abcdefghijklmnopqrstuvwxyzAKm")) and "Traceback" not in words
        assert not any(line.strip().startswith("301 passed") for line in words.splitlines())
    assert r"\x1b[2K" in done.stdout or r"\u001b[2K" in done.stdout


@pytest.mark.parametrize("text, value", [(r'"\u001b\n\u202e\ud800\u0041"', r"\u001b\n\u202e\ud800A"), ('"\u202e\x9b"', r"\u202e\x9b"), ('{\r\n\t"a": 1}\r\n', {"a": 1}),
                                         (r'"\ud83d\ude00"', "\U0001f600"), (r'"\\u001b"', r"\u001b"), ('"\xe9\u4e2d"', "\xe9\u4e2d")])
def test_json_is_read_without_control_characters(text, value):
    assert read_json(text) == value
    assert printable("a\x1b\n\u202eb\U000e0001") == r"a\x1b\n\u202eb\U000e0001"


def test_standard_error_is_capped(tmp_path):
    body = """for _ in range(2000):
            os.write(2, b"x" * 10000)
        os.write(2, b"\\nthe end\\n")
        os._exit(3)"""
    adapter = patient(script(tmp_path, body))
    out = runner.run(adapter, FEW[:1])
    assert 'its last words: "the end"' in out["results"][0]["message"] and len(adapter.errors) <= KEPT
