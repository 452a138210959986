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
        from cmn_conformance.pytest_run import Run
        config.pluginmanager.register(Run(config), "cmn-conformance-run")
