"""tools/pages.py: the pages of the API, from a tiny book."""

import pages
import pytest
import tangle
from notebooks import Book

F = '#| export\nLIMIT = 3\n\n\ndef f(x, *, scale=1):\n    """Twice x.  [eq-f]\n\n    x (N,) -> (N,)\n    """\n    return 2 * x * scale'
C = '''#| export
class F:
    """A box.

    width   in points
    """

    def __init__(self, width, *, deep=False):
        self.width = width

    def opened(self, by=1):
        """An open box.  [eq-box, eq-f]"""

    @property
    def area(self):
        """Of its lid."""

    def _hidden(self):
        pass'''


@pytest.fixture
def book(tmp_path):
    book = Book(tmp_path)
    book.chapter("first", F, C)
    book.chapter("second", "#| export\nfrom cmn_literate.a.first import f as f\n\nG = 1")
    assert tangle.main([], tmp_path) == 0
    (tmp_path / "cmn_literate/palette.py").write_text('"""One look | for all.\n\nMore."""\n\nINK = "black"\n\n\ndef rows(c):\n    """Of class c."""\n')
    assert pages.main([], tmp_path) == 0
    return book


def page(book, name):
    return (book.root / f"book/validate/{name}.md").read_text()


def test_entry_has_signature_docstring_equations_and_its_cell(book):
    text = page(book, "api/a/first")
    assert text.startswith(pages.NOTE + "# `a.first`\n\n`cmn_literate.a.first` is derived in [Title](../../../a/first.ipynb). Doubling is easy.\n")
    assert "## `f`{.api}\n\n```text\nf(x, *, scale=1)\n    Twice x.  [eq-f]\n\n    x (N,) -> (N,)\n```\n" in text
    assert '\nEquation {eq}`eq-f`. Defined in cell <a href="../../../a/first.html#first-02">first-02</a>.\n' in text
    assert '## `LIMIT`{.api}\n\n```python\nLIMIT = 3\n```\n\nDefined in cell <a href="../../../a/first.html#first-02">first-02</a>.\n' in text


def test_class_has_its_public_methods_and_their_equations(book):
    text = page(book, "api/a/first").partition("## `F`{.api}")[2]
    assert "\nF(width, *, deep=False)\n    A box.\n\n    width   in points\n" in text
    assert "\nF.opened(by=1)\n    An open box." in text and "\nF.area\n    Of its lid." in text and "_hidden" not in text
    assert 'Equations {eq}`eq-box`, {eq}`eq-f`. Defined in cell <a href="../../../a/first.html#first-03">first-03</a>.' in text


def test_name_that_is_passed_on_leads_to_its_home(book):
    assert "## `f`{.api}\n\nThe same as in [`a.first`](first.md#f).\n" in page(book, "api/a/second")


def test_plain_module_has_a_page(book):
    text = page(book, "api/palette")
    assert "`cmn_literate.palette` is written by hand" in text and "One look | for all." in text and "More." not in text
    assert '```python\nINK = "black"\n```' in text and "rows(c)\n    Of class c." in text and "Defined in" not in text


def test_list_leads_to_every_name(book):
    text = page(book, "api")
    assert "| [`a.first`](api/a/first.md) Doubling is easy. | [`LIMIT`](api/a/first.md#limit), [`f`](api/a/first.md#f), [`F`](api/a/first.md#f-1) |" in text
    assert "| [`a.second`](api/a/second.md) Doubling is easy. | [`f`](api/a/second.md#f), [`G`](api/a/second.md#g) |" in text
    assert "| [`palette`](api/palette.md) One look \\| for all. | [`INK`](api/palette.md#ink), [`rows`](api/palette.md#rows) |" in text


def test_page_of_a_module_that_is_gone_goes(book, capsys):
    assert pages.main(["--check"], book.root) == 0
    old = book.root / "book/validate/api/a/old.md"
    old.write_text("# old\n")
    assert pages.main(["--check"], book.root) == 1 and "old.md is of no module" in capsys.readouterr().err and old.exists()
    assert pages.main([], book.root) == 0 and not old.exists()


def test_formula_in_a_table_keeps_its_bars():
    assert pages.in_table("$|x| > 0$ | or") == r"$\vert x\vert  > 0$ \| or"


def test_long_line_of_a_docstring_is_broken_below_its_beginning():
    assert pages.within("    short") == ["    short"]
    long = pages.within("    width   " + "word " * 30)
    assert len(long) == 2 and long[1].startswith(" " * 12 + "word") and max(map(len, long)) <= 90
    assert pages.within("    " + "plain words, " * 10)[1].startswith("    words")
