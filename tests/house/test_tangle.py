"""tools/tangle.py: what it writes, and everything that it refuses."""

import importlib.util
import re

import pytest
import tangle
from notebooks import Book

F = "#| export\ndef f(x):\n    '''Twice x.'''\n    return 2 * x"


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def run(book, *args):
    return tangle.main(list(args), book.root)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_module_holds_the_export_cells_and_nothing_else(book):
    book.chapter("first", "#| export\nimport math\nimport math as maths", F, "#| verify eq-f\nassert f(1) == 2", "print('exploring')",
                 "#| export\n_SCALE, LIMIT = 3, 4\n\n\nclass C:\n    pass")
    assert run(book) == 0
    text = book.module("first").read_text()
    assert text.startswith("# Tangled from book/a/first.ipynb by tools/tangle.py; edit the notebook, not this file.\n")
    assert "# book/a/first.ipynb, cell first-03\ndef f(x):" in text and "#|" not in text and "print" not in text
    module = load(book.module("first"))
    assert module.__doc__ == "Title\n\nDoubling is easy.\n" and module.__all__ == ["f", "LIMIT", "C"] and module.f(4) == 8
    assert run(book, "--check") == 0


def test_writing_again_changes_nothing(book):
    book.chapter("first", F)
    run(book)
    before = book.module("first").stat().st_mtime_ns
    assert run(book) == 0 and book.module("first").stat().st_mtime_ns == before
    assert {p.name for p in book.module("first").parent.iterdir()} == {"first.py", "__init__.py"}      # no temporary file


def test_reexport_is_not_a_second_definition(book):
    book.chapter("first", F)
    book.chapter("second", "#| export\nfrom cmn_literate.a.first import f as f\n\nG = 1")
    assert run(book) == 0
    assert '__all__ = ["f", "G"]' in book.module("second").read_text()


@pytest.mark.parametrize("cell, complaint", [
    ("#| export\ndef f(:\n    pass", r"book/a/first\.ipynb, cell first-02: line 2: .*'def f\(:'"),
    ("#| export\n\n\nx = = 2", r"cell first-02: line 4"),
    ("#| export\n%matplotlib inline", "cell first-02: line 2 is a magic"),
    ("#| export\n!pip list", "is a magic"),
    ("#| export\nnames = !ls", "is a magic"),
    ("#| export\nget_ipython().run_line_magic('ls', '')", "is a magic"),
    ("#| export\nprint('hello')", "cell first-02: line 2 is not an import, constant, function or class"),
    ("#| export\nfor i in range(3):\n    pass", "is not an import"),
    ("#| export\nimport math\nmath.tau = 6", "assigns to 'math.tau', not to a name"),
    ("#| exprot\nx = 1", "cell first-02: unknown marker"),
    ("#|export\nx = 1", "unknown marker"),
    ("#| export\nfrom cmn_literate.a.second import g", "imports cmn_literate.a.second, which no earlier chapter exports"),
    ("#| export\ndef f():\n    import cmn_literate.a.second\n", "imports cmn_literate.a.second"),
    ("#| export\nfrom cmn_literate.a import second", "imports cmn_literate.a.second"),
    ("#| export\nfrom cmn_literate import CMNClassifier", "imports cmn_literate.CMNClassifier"),
    ("#| export\nfrom .a.second import g", "which no earlier chapter exports"),
    ("#| export\nfrom cmn_literate.a.first import f", "imports cmn_literate.a.first"),
    ("#| export\nfrom cmn_literate.conformance import f", "imports cmn_literate.conformance.f"),
])
def test_refuses(book, capsys, cell, complaint):
    book.chapter("first", cell)
    book.chapter("second", "#| export\ndef g():\n    pass")
    assert run(book) == 1
    assert not book.module("first").exists()
    assert re.search(complaint, capsys.readouterr().err)


@pytest.mark.parametrize("second", ["#| export\nf = 3", "#| export\ndef f():\n    pass", "#| export\nimport f", "#| export\nfrom os import path as f"])
def test_refuses_a_name_that_is_defined_twice(book, capsys, second):
    book.chapter("first", F, second)
    assert run(book) == 1
    assert "cell first-03: 'f' is already defined in cell first-02" in capsys.readouterr().err


@pytest.mark.parametrize("tangle, name", [("first", "first"), (True, "not a name"), (False, "first")])
def test_refuses_a_name_that_is_no_module(book, capsys, tangle, name):
    book.chapter(name, F, tangle=tangle)
    assert run(book) == 1 and "must name a module" in capsys.readouterr().err


def test_refuses_a_chapter_without_a_place(book, capsys):
    book.chapter("fourth", F)
    assert run(book) == 1 and "book/a/fourth.ipynb: not in _toc.yml" in capsys.readouterr().err


def test_a_chapter_that_is_commented_out_keeps_its_place(book):
    toc = book.root / "_toc.yml"
    toc.write_text(toc.read_text().replace("- file: book/a/first", "# - file: book/a/first"))
    book.chapter("first", F)
    book.chapter("second", "#| export\nfrom cmn_literate.a.first import f\n\nG = f(1)")
    assert run(book) == 0


def test_check_names_stale_edited_missing_and_orphaned_modules(book, capsys):
    book.chapter("first", F)
    book.chapter("second", "#| export\nG = 1")
    assert run(book, "--check") == 1
    assert "cmn_literate/a/first.py is missing" in capsys.readouterr().err
    run(book)
    book.module("first").write_text(book.module("first").read_text() + "# by hand\n")           # edited
    book.chapter("second", "#| export\nG = 2")                                                  # stale
    book.module("orphan").write_text("")
    before = book.module("first").read_text(), book.module("second").read_text()
    capsys.readouterr()
    assert run(book, "--check") == 1
    said = capsys.readouterr().err
    for name in ("first", "second"):
        assert f"cmn_literate/a/{name}.py differs from its chapter (book/a/{name}.ipynb)" in said
    assert "cmn_literate/a/orphan.py is fed by no chapter" in said and "__init__" not in said
    assert before == (book.module("first").read_text(), book.module("second").read_text())


def test_a_chapter_alone_can_be_tangled(book):
    path = book.chapter("first", F)
    book.chapter("second", "#| export\nprint()")              # broken, and none of our business
    assert run(book, str(path)) == 0 and book.module("first").exists() and not book.module("second").exists()
    assert run(book, str(book.root / "book/a/none.ipynb")) == 1


def test_an_interrupted_write_leaves_the_old_module(tmp_path, monkeypatch):
    target = tmp_path / "m.py"
    target.write_text("old")
    monkeypatch.setattr(tangle.os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        tangle.write_atomically(target, "new")
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_check_needs_nothing_but_python(book, monkeypatch, capsys):
    """Without nbformat the notebooks are read as JSON: the same modules, and a stale one is still named."""
    book.chapter("first", "#| export\nimport math", F)
    assert run(book) == 0
    monkeypatch.setattr(tangle, "nbformat", None)
    assert run(book, "--check") == 0 and tangle.main(["--check"], tangle.ROOT) == 0
    module = book.module("first")
    module.write_text(module.read_text().replace("2 * x", "3 * x"))
    assert run(book, "--check") == 1
    assert "first" in "".join(capsys.readouterr())
