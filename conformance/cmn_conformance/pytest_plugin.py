"""pytest --cmn-adapter package.module: one test per conformance case, beside whatever else is collected.

Without one of the two options --cmn-adapter and --cmn-command this plugin adds options and nothing else; what it needs is imported
only when it is asked for.
"""


def pytest_addoption(parser):
    group = parser.getgroup("cmn-conformance", "conformance of conditional mixture networks")
    group.addoption("--cmn-adapter", metavar="SPEC", help="test this Python adapter: package.module[:object] or file.py[:object]")
    group.addoption("--cmn-command", metavar="CMD", help="test this command, which answers JSON lines")
    group.addoption("--cmn-level", metavar="0-4", help="levels of the conformance cases")
    group.addoption("--cmn-dtype", choices=("f64", "f32"), default="f64")
    group.addoption("--cmn-inaccurate", choices=("fail", "pass"), default="fail", help="whether inaccurate answers fail")
    group.addoption("--cmn-xfails", metavar="FILE.toml", help='expected failures: a table [xfails] with lines "id" = "reason"')
    group.addoption("--cmn-timeout", type=float, default=30.0, metavar="S", help="seconds for one conformance case (30)")


def pytest_configure(config):
    if config.getoption("cmn_adapter", None) is not None or config.getoption("cmn_command", None) is not None:
        config.pluginmanager.register(make_plugin(config), "cmn-conformance-run")


def make_plugin(config):
    """The part that works, with its imports."""
    import pytest

    from cmn_conformance import catalogue, report, runner, verdicts
    from cmn_conformance.process import NotStarted, check_wait, open_adapter

    option = lambda name: config.getoption(f"cmn_{name}")

    class Wrong(Exception):
        """A case that did not pass; its message is all there is to say."""

    class ConformanceCase(pytest.Item):
        """One case."""

        def __init__(self, case, run, **kwargs):
            super().__init__(**kwargs)
            self.case, self.run = case, run

        def runtest(self):
            result, answer = runner.ask(self.run.adapter, self.case, option("dtype"), self.run.capabilities["profile"])
            self.run.results.append(result)
            self.run.sequence[self.run.adapter.seq] = self.nodeid
            if result["verdict"] == "skipped":
                pytest.skip(result["message"])
            if result["verdict"] not in (("passed", "inaccurate") if option("inaccurate") == "pass" else ("passed",)):
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
                why = runner.why_not_asked(case, self.run.capabilities, option("dtype"))
                if why and why[0] == "undeclared":
                    continue
                item = ConformanceCase.from_parent(self, name=case.id, case=case, run=self.run)
                if why:
                    item.add_marker(pytest.mark.skip(reason=why[2]))
                if case.id in self.run.xfails:
                    item.add_marker(pytest.mark.xfail(reason=self.run.xfails[case.id], strict=True))
                yield item

    class Run:
        """The adapter, and the hooks of one session."""
        results, sequence, xfails, adapter = (), {}, {}, None

        def prepare(self):
            if option("adapter") is not None and option("command") is not None:
                raise runner.BadRequest("give --cmn-adapter or --cmn-command, not both")
            check_wait("--cmn-timeout", option("timeout"))
            levels = catalogue.parse_levels(option("level")) if option("level") else None
            self.cases, self.results = catalogue.select(levels), []
            if option("xfails"):
                self.xfails = runner.read_xfails(option("xfails"), [c.id for c in catalogue.cases()])
            self.adapter = open_adapter(option("adapter"), option("command"), timeout=option("timeout"))
            self.capabilities = self.adapter.start(runner.greeting(option("dtype")))
            runner.check_dtype(self.capabilities, option("dtype"))

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(self, session, items):
            if hasattr(session.config, "workerinput") is False and session.config.getoption("numprocesses", None):
                return                                   # pytest-xdist: the workers collect and run
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
            self.late = [f"{self.sequence[seq]} {words}" for seq, words in self.adapter.late.items() if seq in self.sequence]
            if self.late and session.exitstatus == 0:
                session.exitstatus = 1

        def pytest_terminal_summary(self, terminalreporter):
            if not self.results:
                return
            terminalreporter.section("CAVI-CMN conformance")
            suite = verdicts.expected(self.capabilities, option("dtype"))
            for line in report.table({"levels": report.summarise(self.results, {}, suite)["levels"]}) + getattr(self, "late", []):
                terminalreporter.write_line(line)

    return Run()
