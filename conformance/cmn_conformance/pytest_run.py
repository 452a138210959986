"""What pytest --cmn-adapter runs: a test for each case, the adapter that is asked, and the hooks of one session."""

import signal

import pytest

from cmn_conformance import catalogue, report, runner, verdicts
from cmn_conformance.process import NotStarted, check_wait, open_adapter

ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Wrong(Exception):
    """A case that did not pass; its message is all there is to say."""


class ConformanceCase(pytest.Item):
    """One case."""

    def __init__(self, case, run, **kwargs):
        super().__init__(**kwargs)
        self.case, self.run = case, run

    def runtest(self):
        run = self.run
        result, answer = runner.ask(run.adapter, self.case, run.option("dtype"), run.capabilities["profile"])
        run.results.append(result)
        run.sequence[run.adapter.seq] = self.nodeid
        if result["verdict"] == "skipped":
            pytest.skip(result["message"])
        if result["verdict"] not in (("passed", "inaccurate") if run.option("inaccurate") == "pass" else ("passed",)):
            raise Wrong("\n".join(report.describe(result, catalogue.flags())))

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if isinstance(excinfo.value, Wrong) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, 0, self.case.id


class Suite(pytest.Collector):
    """The cases that the adapter can be asked."""

    def __init__(self, run, **kwargs):
        super().__init__(**kwargs)
        self.run = run

    def collect(self):
        for case in self.run.cases:
            why = runner.why_not_asked(case, self.run.capabilities, self.run.option("dtype"))
            if why and why[0] == "undeclared":
                continue
            item = ConformanceCase.from_parent(self, name=case.id, case=case, run=self.run)
            if why:
                item.add_marker(pytest.mark.skip(reason=why[2]))
            if case.id in self.run.xfails:
                item.add_marker(pytest.mark.xfail(reason=self.run.xfails[case.id], strict=True))
            yield item


def leave(number, frame):
    """End the session as after a failed one, so that the adapter is ended too."""
    pytest.exit(f"{signal.Signals(number).name}: the adapter is ended", returncode=128 + number)


class Run:
    """The adapter, and the hooks of one session."""

    def __init__(self, config):
        self.config, self.adapter, self.handlers = config, None, {}
        self.results, self.sequence, self.xfails, self.late = [], {}, {}, []

    def option(self, name):
        return self.config.getoption(f"cmn_{name}")

    def prepare(self):
        option = self.option
        if option("adapter") is not None and option("command") is not None:
            raise runner.BadRequest("give --cmn-adapter or --cmn-command, not both")
        check_wait("--cmn-timeout", option("timeout"))
        levels = catalogue.parse_levels(option("level")) if option("level") else None
        self.cases, self.results = catalogue.select(levels), []
        if option("xfails"):
            self.xfails = runner.read_xfails(option("xfails"), [c.id for c in catalogue.cases()])
        self.adapter = open_adapter(option("adapter"), option("command"), timeout=option("timeout"))
        self.listen()
        self.capabilities = self.adapter.start(runner.greeting(option("dtype")))
        runner.check_dtype(self.capabilities, option("dtype"))

    def listen(self):
        """A signal that would end this process ends the adapter first: it has a group of its own, and may not notice."""
        for number in ENDING:
            try:
                if signal.getsignal(number) == signal.SIG_DFL:
                    self.handlers[number] = signal.signal(number, leave)
            except ValueError:                           # not the main thread, which alone hears signals
                return

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session, items):
        if hasattr(session.config, "workerinput") is False and session.config.getoption("numprocesses", None):
            return                                       # pytest-xdist: the workers collect and run
        try:
            self.prepare()
        except (runner.BadRequest, NotStarted, ValueError) as error:
            raise pytest.UsageError(str(error)) from None
        suite = Suite.from_parent(session, name="cmn-conformance", nodeid="cmn-conformance", run=self)
        asked = list(suite.collect())
        if not asked:
            self.adapter.stop()
            raise pytest.UsageError("the adapter has none of the operations of these cases; an operation is named as in "
                                    "python -m cmn_conformance list")
        items.extend(asked)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        if self.adapter is None:
            return
        self.adapter.stop()
        while self.handlers:
            signal.signal(*self.handlers.popitem())
        self.late = [f"{self.sequence[seq]} {words}" for seq, words in self.adapter.late.items() if seq in self.sequence]
        if self.late and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if not self.results:
            return
        terminalreporter.section("CAVI-CMN conformance")
        suite = verdicts.expected(self.capabilities, self.option("dtype"))
        for line in report.table({"levels": report.summarise(self.results, {}, suite)["levels"]}) + self.late:
            terminalreporter.write_line(line)
