"""An adapter in a process of its own: asked by JSON lines, watched, restarted after a crash or a hang."""

import json
import os
import queue
import re
import shlex
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from collections import Counter
from contextlib import contextmanager

from cmn_conformance.serve import PROTOCOL, Host, Interrupted, load

LONGEST = 1 << 24                                        # bytes of one line
MAX_WAIT = 1_000_000                                     # seconds; some systems cannot wait for five times as long
ANSWERS = ("out", "skipped", "errored")
KEPT = 1 << 16                                           # bytes of standard error
ESCAPES = re.compile(r"\\u(?i:d[89ab][0-9a-f]{2})\\u(?i:d[c-f][0-9a-f]{2})|\\u([0-9a-fA-F]{4})|\\([bfnrt])|\\.")
CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")           # categories of characters that a terminal obeys, or that no file can hold
CACHES = {"JAX_COMPILATION_CACHE_DIR": "jax", "NUMBA_CACHE_DIR": "numba", "TORCHINDUCTOR_CACHE_DIR": "torch", "CMN_CACHE_DIR": "own"}
QUICK = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}


class Trouble(Exception):
    """What became of a question that got no proper answer: kind is one word, the message a sentence."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class NotStarted(Exception):
    """The adapter cannot be asked at all."""


def check_wait(name, seconds):
    if not 0 < seconds <= MAX_WAIT:
        raise ValueError(f"{name}: expected a number > 0 and <= {MAX_WAIT} (seconds), got {seconds:g}")


def printable(text):
    """The text with control characters written out, so that nothing an adapter says can draw on the terminal or begin a line."""
    return "".join(_written(c) if unicodedata.category(c) in CONTROL else c for c in text)


def _written(character):
    code = ord(character)
    return repr(character)[1:-1] if code < 256 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _escaped(escape):
    """An escape of a JSON text as it may stand: with a second backslash where printable() would write its character out."""
    code = int(escape[1], 16) if escape[1] else 10 if escape[2] else 32
    return "\\" + escape[0] if unicodedata.category(chr(code)) in CONTROL else escape[0]


def read_json(text):
    """The value of a JSON text.  Control characters and halves of surrogate pairs become the characters they are written as."""
    if not text.isascii():                               # below 128 they are whitespace between values, or an error
        text = "".join("\\" + _written(c) if c > "~" and unicodedata.category(c) in CONTROL else c for c in text)
    return json.loads(ESCAPES.sub(_escaped, text))


def strings(value):
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def check_start(reply):
    """The capabilities, or NotStarted."""
    if "cmd" in reply:
        raise NotStarted("the adapter sends back what it is sent, and answers nothing")
    wrong = [key for key, kind in (("ops", list), ("dtypes", list), ("profile", dict), ("name", str), ("version", str), ("language", str))
             if not isinstance(reply.get(key, kind()), kind)]
    if type(reply.get("protocol")) is not int or reply["protocol"] != PROTOCOL:
        raise NotStarted(f"the adapter speaks protocol {reply.get('protocol')!r}, this runner {PROTOCOL}")
    if wrong or "ops" not in reply:
        raise NotStarted(f"the adapter's answer to start has no proper {', '.join(wrong) or 'ops'}")
    for key in ("ops", "dtypes"):
        if not strings(reply.get(key, [])):
            raise NotStarted(f"the adapter's answer to start has {key} that are no strings: {str(reply[key])[:80]}")
    twice = [op for op, times in Counter(reply["ops"]).items() if times > 1]
    if twice:
        raise NotStarted(f"the adapter declares operations more than once: {', '.join(twice[:5])}")
    reply = {"name": "adapter", "version": "", "language": "", "profile": {}, "dtypes": ["f64"], **reply}
    words = {key: reply[key][:200] for key in ("name", "version", "language")}
    return {**words, **{key: reply[key] for key in ("profile", "dtypes", "ops")}}


def check_answer(reply):
    """The answer, or Trouble."""
    kinds = [key for key in ANSWERS if key in reply]
    if len(kinds) != 1:
        raise Trouble("garbage", f"an answer has one of out, skipped, errored; got {sorted(reply)[:6]}")
    if not isinstance(reply[kinds[0]], dict if kinds[0] == "out" else str):
        raise Trouble("garbage", f"{kinds[0]} is of the wrong type, {type(reply[kinds[0]]).__name__}")
    return reply


class LocalAdapter:
    """A Python adapter in this very process: fast, and no protection from crashes and hangs."""
    seq = property(lambda self: self.asked)

    def __init__(self, adapter):
        self.host, self.asked, self.answered, self.restarts, self.late, self.banner = Host(adapter), 0, 0, 0, {}, []

    def start(self, message):
        with no_exit():
            try:
                reply = self.host.answer({"cmd": "start", "seq": 0, "protocol": PROTOCOL, **message})
            except SystemExit as error:
                raise NotStarted(f"the adapter ends the program: SystemExit: {error}") from None
        return check_start(read_json(json.dumps(reply, default=str)))

    def ask(self, message):
        self.asked += 1
        with no_exit():
            reply = self.host.answer({"cmd": "run", "seq": self.asked, **message})
        reply = check_answer(read_json(json.dumps(reply)))
        self.answered += 1
        return reply

    def stop(self):
        pass


@contextmanager
def no_exit():
    """Within this block os._exit(), which would end the program without a word, is a SystemExit.  (What a library in C does is beyond it.)"""
    real = os._exit
    pid = os.getpid()

    def leave(code=0):
        if os.getpid() != pid:                           # a child that was forked ends as it will
            real(code)
        raise SystemExit(f"os._exit({code})")
    os._exit = leave
    try:
        yield
    finally:
        os._exit = real


class ProcessAdapter:
    """Asks a command.  ask() returns an answer or raises Trouble; after a crash or a hang the next ask() starts it again."""

    def __init__(self, command, timeout=30.0, start_timeout=120.0, max_restarts=20, first_timeout=180.0):
        try:
            self.command = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise NotStarted(f"cannot read the command {command}: {error}") from None
        if not self.command:
            raise NotStarted("the command is empty")
        for name, value in (("timeout", timeout), ("start_timeout", start_timeout), ("first_timeout", first_timeout)):
            check_wait(name, value)
        self.timeout, self.start_timeout, self.max_restarts = timeout, start_timeout, max_restarts
        self.first_timeout = max(first_timeout, timeout)
        self.warm, self.hung = set(), set()              # operations that have been asked; those that once had no answer in time
        self.fresh = False                               # started again, and not asked since
        self.caches = None
        self.process, self.hello, self.seq = None, None, 0
        self.asked = self.answered = self.restarts = 0
        self.banner = []                                 # what it printed before its answer to start
        self.late = {}                                   # sequence number -> what came after its answer
        self.counted = set()

    # ---- the process

    def _launch(self):
        group = {"start_new_session": True} if os.name == "posix" else {}
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                            env=self._environment(), **group)
        except OSError as error:
            raise NotStarted(f"cannot run {self.command[0]}: {error.strerror or error}") from None
        self.lines, self.outbox = queue.Queue(16), queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()
        threading.Thread(target=self._write, args=(self.process, self.outbox), daemon=True).start()
        self.errors = bytearray()
        self.listener = threading.Thread(target=self._listen, args=(self.process.stderr, self.errors), daemon=True)
        self.listener.start()

    def _environment(self):
        """That of this process, with a folder of this run for compiled code, so that a restart does not compile again."""
        if self.caches is None:
            self.caches = tempfile.mkdtemp(prefix="cmn-conformance-")
        return {**{name: os.path.join(self.caches, folder) for name, folder in CACHES.items()}, **QUICK, **os.environ}

    @staticmethod
    def _listen(stream, kept):
        """Read standard error to its end, and keep the end of it."""
        with stream:
            while data := stream.read1(KEPT):
                kept += data
                del kept[:-KEPT]

    @staticmethod
    def _read(process, lines):
        """Put (line, whole) of standard output into the queue, then None.  Of an endless line only the beginning is kept."""
        with process.stdout as stream:
            while line := stream.readline(LONGEST):
                whole = line.endswith(b"\n")
                lines.put((line if whole or len(line) < LONGEST else line[:200], whole))
                while line and not line.endswith(b"\n"):
                    line = stream.readline(LONGEST)
        lines.put(None)

    @staticmethod
    def _write(process, outbox):
        while (data := outbox.get()) is not None:
            try:
                process.stdin.write(data)
                process.stdin.flush()
            except (OSError, ValueError):
                return

    def _end(self, grace=0.0):
        """End the process and everything that it started."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            process.wait(grace) if grace else None
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
        except (OSError, AttributeError):
            pass
        process.wait()
        self.outbox.put(None)
        try:
            process.stdin.close()
        except OSError:                                  # what was still to be written has no reader
            pass
        while True:                                      # unblock the reader
            try:
                if self.lines.get(timeout=1.0) is None:
                    break
            except queue.Empty:
                break

    def _said(self):
        """End of standard error, in a sentence."""
        self.listener.join(1.0)
        text = bytes(self.errors[-2000:]).decode(errors="replace")
        last = [line.strip() for line in text.splitlines() if line.strip()][-1:]
        return f'; its last words: "{printable(last[0][:300])}"' if last else "; it said nothing on standard error"

    # ---- questions

    def _send(self, message):
        self.outbox.put((json.dumps(message, allow_nan=False) + "\n").encode())

    def _line(self, deadline):
        """The next item of the adapter's output, or queue.Empty after the deadline.  A signal does not end a wait that begins while it comes, or that
        of a thread which did not take it; so no wait is longer than a second."""
        while True:
            left = deadline - time.monotonic()
            try:
                return self.lines.get(timeout=min(max(left, 0.001), 1.0))
            except queue.Empty:
                if left <= 1.0:
                    raise

    def _receive(self, seq, seconds, limit):
        """(the answer number seq, lines before it that are none); limit: the option that sets the seconds."""
        deadline, noise = time.monotonic() + seconds, []
        while True:
            try:
                item = self._line(deadline)
            except queue.Empty:
                self._end()
                if noise:
                    raise Trouble("garbage", f"no answer in {seconds:g} s ({limit}), only text that is none: {noise[0]!r}") from None
                raise Trouble("timeout", f"no answer in {seconds:g} s ({limit}); the adapter was ended") from None
            if item is None:
                self.lines.put(None)
                code = self._exit_code()
                said = self._said()
                self._end()
                if noise and noise[-1].startswith("{"):
                    raise Trouble("truncated", f"the answer breaks off after {noise[-1][-40:]!r}, then the adapter ended ({code}){said}")
                raise Trouble("crash", f"the adapter ended ({code}){said}")
            reply = self._parse(*item)
            if reply is not None and reply.get("seq") == seq:
                self.counted.add(seq)
                return reply, noise
            if reply is not None and isinstance(reply.get("seq"), int) and reply["seq"] in self.counted:
                self.late[reply["seq"]] = "answered more than once"
                continue
            noise.append(item[0].decode(errors="replace").strip()[:200])
            if time.monotonic() > deadline or len(noise) > 10_000:
                self._end()
                raise Trouble("garbage", f"only text that is no answer, {len(noise)} lines: {noise[0]!r}")

    @staticmethod
    def _parse(line, whole):
        if not whole:
            return None
        try:
            reply = read_json(line.decode("utf-8-sig", errors="replace"))
        except (ValueError, RecursionError):
            return None
        return reply if isinstance(reply, dict) else None

    def _exit_code(self):
        try:
            code = self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            return "its standard output is closed, the process goes on"
        if code < 0:
            names = {s.value: s.name for s in signal.Signals}
            return f"signal {names.get(-code, -code)}"
        return f"exit code {code}"

    def start(self, message):
        """Capabilities of the adapter; NotStarted if it has none."""
        self.hello = {"cmd": "start", "protocol": PROTOCOL, **message}
        self._launch()
        try:
            self.seq += 1
            self._send({**self.hello, "seq": self.seq})
            reply, self.banner = self._receive(self.seq, self.start_timeout, "--start-timeout")
            return check_start(reply)
        except Interrupted:
            self._end()
            raise
        except Trouble as trouble:
            self._end()
            raise NotStarted(f"no proper answer to start: {trouble}") from None
        except NotStarted:
            self._end()
            raise

    def ask(self, message):
        if self.process is None:
            if self.restarts >= self.max_restarts:
                raise Trouble("given up", f"not asked: the adapter has been restarted {self.restarts} times")
            self.restarts += 1
            try:
                self.start({k: v for k, v in self.hello.items() if k not in ("cmd", "protocol", "seq")})
            except NotStarted as error:
                raise Trouble("not restarted", f"not asked: {error}") from None
            self.fresh = True
        self.seq += 1
        self.asked += 1
        first = message["op"] not in self.warm or self.fresh and message["op"] not in self.hung
        self.fresh = False
        seconds, limit = (self.first_timeout, "--first-timeout, then --timeout") if first else (self.timeout, "--timeout")
        self._send({"cmd": "run", "seq": self.seq, **message})
        try:
            reply, noise = self._receive(self.seq, seconds, limit)
            if noise:
                raise Trouble("chatty", "standard output is for answers; before this one came "
                              f"{len(noise)} line(s) that are none: {noise[0]!r}")
            return check_answer(reply)
        except Trouble as trouble:
            if trouble.kind == "timeout":
                self.hung.add(message["op"])
            raise
        except Interrupted:
            self._end()
            raise
        finally:
            self.warm.add(message["op"])
            self.answered += self.seq in self.counted

    def stop(self):
        """Say stop, count what still comes, end the process."""
        if self.process is not None:
            self._goodbye()
        if self.caches is not None:
            shutil.rmtree(self.caches, ignore_errors=True)
            self.caches = None

    def _goodbye(self):
        self._send({"cmd": "stop"})
        deadline = time.monotonic() + 2.0
        while True:
            try:
                item = self._line(deadline)
            except queue.Empty:
                break
            if item is None:
                self.lines.put(None)
                break
            reply = self._parse(*item)
            if reply is not None and isinstance(reply.get("seq"), int) and reply["seq"] in self.counted:
                self.late[reply["seq"]] = "answered more than once"
        self._end(grace=0.2)


def python_command(spec):
    """How to run a Python adapter as a process."""
    return [sys.executable, "-m", "cmn_conformance.serve", spec]


def open_adapter(adapter=None, command=None, in_process=False, **limits):
    """LocalAdapter or ProcessAdapter of what the user named: "package.module[:object]", an object, or a command."""
    if command is not None:
        return ProcessAdapter(command, **limits)
    if not isinstance(adapter, str):
        return LocalAdapter(adapter)
    if not adapter.partition(":")[0]:
        raise NotStarted(f"expected package.module[:object] or file.py[:object], got {adapter!r}")
    if in_process:
        try:
            with no_exit():
                return LocalAdapter(load(adapter))
        except (Exception, SystemExit) as error:
            raise NotStarted(f"cannot load {adapter}: {type(error).__name__}: {printable(str(error))}") from None
    return ProcessAdapter(python_command(adapter), **limits)
