"""tools/prose.py finds each fault that is planted here, and counts what a reader reads."""

import prose
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


def notebook(*cells):
    """A source that begins with '#|' or 'code:' is code."""
    return new_notebook(cells=[new_code_cell(c.removeprefix("code:")) if c.startswith(("#|", "code:")) else new_markdown_cell(c) for c in cells])


HIDDEN = """Read this one.

:::{dropdown} A title
not a word of this

$$ a = b $$ (eq-hidden)
:::

And this.
"""
NESTED = """::::{admonition} Checkpoint
:class: checkpoint
Before you read on?

:::{dropdown} Answer
never counted
:::
::::"""


@pytest.mark.parametrize("text, count", [
    ("Three short words.", 3),
    ("Where $a + b = c$ is one.", 4),                                   # a formula in a line is one word
    ("Before\n\n$$\na + b = c + d\n$$ (eq-x)\n\nafter.", 2),              # a display is none
    ("Before\n\n```{math}\n:label: eq-x\na + b\n```\n\nafter.", 2),
    ("One - and - two", 3),                                             # a dash is no word
    (HIDDEN, 5),
    (NESTED, 6),
    ('<div class="x">two words</div>', 2),
    ("", 0),
])
def test_words(text, count):
    assert prose.words(text) == count


def test_measure_counts_what_stands_open():
    tiny = notebook("# Title here\n\nfour more plain words", "#| setup\nimport math", "#| export\ndef f(x):\n    return x", "$$ f(x) = x $$ (eq-f)",
                    "#| verify eq-f\nassert f(1) == 1\nprint('agrees')", "#| verify open eq-f\nassert f(2) == 2", "#| export fold\ndef g():\n    pass",
                    "#| show\n#| alt: a line\n#| caption: A line.\nplot()", "code:f(3)\nf(4)", HIDDEN, NESTED,
                    ":::{admonition} What we have now\n:class: recap\ndone\n:::", "```{exercise} Five minutes\n:label: ex-f\n```", "#| solution\nf(5)", "#| show\nplot()")
    m = prose.measure(tiny)
    assert m.lines == 2 + 1 + 2                                         # of f, the open check and the plain cell
    assert m.picture == 6 and m.figures == 2
    assert m.words == sum(prose.words(c.source) for c in tiny.cells if c.cell_type == "markdown")
    assert (m.checkpoints, m.recaps, m.exercises) == (1, 1, 1)


def test_chapter_without_a_figure_has_no_picture_and_a_widget_is_one():
    assert prose.measure(notebook("two words")).picture is None
    m = prose.measure(notebook("two words", '<div data-widget="sticks"></div>', "#| show\nplot()"))
    assert m.picture == 2 and m.figures == 2


# ---- terms before their time

TERMS = [("Tilt", "book/network/late.ipynb"), ("Effective sample size (ESS)", "book/network/late.ipynb"), ("Start of a fit", "book/network/late.ipynb"),
         ("Lost", "book/network/nowhere.ipynb")]


def early(text, path="book/ideas/early.ipynb"):
    return prose.too_early({path: notebook("# Title", text), "book/network/late.ipynb": notebook("# Tilt\n\nA tilt is a lost start.")}, TERMS)


@pytest.mark.parametrize("text", ["The tilt is 3.", "Two Tilts are given.", "an effective sample size of 3", "at the start of a fit", "**Tilt**, it is"])
def test_early_term_is_found(text):
    (found,) = early(text)
    assert found.startswith("book/ideas/early.ipynb, cell 2: ") and "is used before book/network/late.ipynb defines it" in found


@pytest.mark.parametrize("text", [
    "The [tilt](../network/late.ipynb) is 3.", "The {term}`tilt` is 3.", "The {term}`tilts <Tilt>` are 3.", "The array `tilt` is 3.", r"The $\text{tilt}$ is 3.",
    "## Tilt", "*Needs:* the tilt", "$$ tilt = 3 $$ (eq-tilt)", ":::{dropdown} Aside\nthe tilt\n:::", "It is tilted, a full-tilt run.", "It starts again.", "Nothing is lost."])
def test_linked_or_other_word_is_no_early_term(text):
    assert early(text) == []


def test_chapters_that_come_first_may_point_forward_and_home_may_speak():
    assert early("The tilt is 3.", path="book/start/early.ipynb") == []


def test_glossary_is_read(tmp_path):
    (tmp_path / "book/start").mkdir(parents=True)
    (tmp_path / "book/start/glossary.md").write_text(
        "# Glossary\n\n```{glossary}\nBound, or ELBO\n  A bound $q$; see [Evidence](../ideas/evidence.ipynb).\n\nTilt\n  It tilts; see [Trick](../ideas/trick.ipynb).\n```\n")
    assert prose.glossary(tmp_path) == [("Bound, or ELBO", "book/ideas/evidence.ipynb"), ("Tilt", "book/ideas/trick.ipynb")]


def test_glossary_of_the_book_is_read_whole():
    text = (prose.ROOT / "book/start/glossary.md").read_text()
    assert len(prose.glossary()) == text.count("; see [") > 40


# ---- letters

SYMBOLS = r"""
[[symbol]]
symbol = "tilt"
latex = '\xi'
code = "xi"
never = ['\\zeta(?![a-z])']
[[symbol]]
symbol = "rows"
latex = 'N'
code = "n"
"""


def letters(tmp_path, *cells, symbols=SYMBOLS, path="book/ideas/a.ipynb"):
    (tmp_path / "book").mkdir(exist_ok=True)
    (tmp_path / "book/symbols.toml").write_text(symbols)
    return prose.other_letters({path: notebook("# Title", *cells)}, tmp_path)


@pytest.mark.parametrize("text", [r"a $\zeta$ here", "$$\n\\zeta = 1\n$$ (eq-a)", r"both $a$ and $b+\zeta_1$"])
def test_forbidden_letter_is_found(tmp_path, text):
    (found,) = letters(tmp_path, text)
    assert found.startswith("book/ideas/a.ipynb, cell 2: ") and r"for tilt, which is written \xi" in found


@pytest.mark.parametrize("text", [r"a $\xi$ and the word zeta", r"$\zetas$", "#| verify eq-a\nzeta = '$\\\\zeta$'"])
def test_other_letters_are_free(tmp_path, text):
    assert letters(tmp_path, text) == []


def test_errata_may_write_as_the_paper_does(tmp_path):
    assert letters(tmp_path, r"$\zeta$", path="book/validate/errata.ipynb") == []


def test_one_name_in_code_is_one_letter(tmp_path):
    (found,) = letters(tmp_path, "text", symbols=SYMBOLS.replace('code = "n"', 'code = "xi"'))
    assert "are both called xi and written differently" in found


# ---- labels

def test_label_in_use_needs_a_check():
    chapters = {"book/ideas/a.ipynb": notebook("# A", "$$ a $$ (eq-seen)", "$$ b $$ (eq-code)", "$$ c $$ (eq-idle)", "$$ d $$ (eq-good)",
                                               "By {eq}`eq-seen` and {eq}`eq-good`.", '#| export\ndef f():\n    """F.  [eq-code]"""', "#| verify eq-good\nassert 1"),
                "book/ideas/b.ipynb": notebook("# B", "#| verify eq-nowhere\nassert 1")}
    found = prose.unchecked(chapters)
    assert found == ["book/ideas/b.ipynb, cell 2: checks eq-nowhere, which is no equation",
                     "book/ideas/a.ipynb, cell 2: eq-seen is used (book/ideas/a.ipynb, cell 6) and no cell checks it",
                     "book/ideas/a.ipynb, cell 3: eq-code is used (book/ideas/a.ipynb, cell 7) and no cell checks it"]


def test_reference_within_its_own_cell_is_no_use():
    assert prose.unchecked({"book/ideas/a.ipynb": notebook("# A", "$$ a $$ (eq-a)\n\nBy {eq}`eq-a` again.")}) == []


def test_label_of_a_directive_counts():
    cells = ["# A", "```{math}\n:label: eq-a\na\n```", "By {eq}`eq-a`."]
    assert len(prose.unchecked({"book/ideas/a.ipynb": notebook(*cells)})) == 1
    assert prose.unchecked({"book/ideas/a.ipynb": notebook(*cells, "#| verify eq-a\nassert 1")}) == []


# ---- length

GOOD = ["# A\n\nwords", "#| show\nplot()", NESTED, NESTED, ":::{admonition} Now\n:class: recap\n:::", "```{exercise} a\n```\n```{exercise} b\n```\n```{exercise} c\n```"]


@pytest.mark.parametrize("cells, complaint", [
    (["word " * 2500, *GOOD], "words, at most 2500"),
    ([*GOOD, "code:" + "x = 1\n" * 61], "61 open lines of code, at most 60"),
    (["word " * 501, *GOOD], "words before the first figure, at most 500"),
    ([c for c in GOOD if not c.startswith("#| show")], "words before the first figure"),
    (GOOD[:3] + GOOD[4:], "1 checkpoints, at least 2"),
    ([c for c in GOOD if "recap" not in c], "0 recap, at least 1"),
    (GOOD[:-1], "0 exercises, at least 3"),
])
def test_overlong(cells, complaint):
    assert any(complaint in said and said.startswith("book/ideas/a.ipynb: ") for said in prose.overlong({"book/ideas/a.ipynb": notebook(*cells)}))
    assert prose.overlong({"book/engineering/a.ipynb": notebook(*cells)}) == []


def test_chapter_within_the_limits_has_no_problem():
    assert prose.overlong({"book/network/a.ipynb": notebook(*GOOD)}) == []


def test_table_has_a_row_for_each_chapter():
    rows = prose.table({"book/network/a.ipynb": notebook(*GOOD), "book/ideas/b.ipynb": notebook("# B")}).splitlines()
    assert [row.split()[0] for row in rows] == ["network/a", "ideas/b"] and "2 checkpoints, 1 recap, 3 exercises" in rows[0]
