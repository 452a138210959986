"""tools/execute.py: what it stores, and everything that it refuses."""

import base64
import io
import json
import os

import execute
import nbformat
import numpy as np
import pytest
from experiments.tables import Table
from nbformat.v4 import new_code_cell, new_output
from notebooks import Book
from PIL import Image

FIGURE = "import matplotlib.pyplot as plt\nplt.plot([0, 1])\nplt.show()"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A chapter, executed twice."""
    book = Book(tmp_path_factory.mktemp("book"))
    book.module("helper").write_text("VALUE = 7\n")
    path = book.chapter("first", "import sys\nfrom cmn_literate.a.helper import VALUE\nprint(VALUE)\nsys.stdout.flush()\nprint('next')",
                        "#| verify eq-a\nassert VALUE == 7\n0.5", f"#| show\n#| alt: A line\n#| alt: that rises.\n#| caption: See it rise.\n{FIGURE}",
                        "#| solution\nprint('solved')  ", "import os\nprint(os.path.basename(os.getcwd()))")
    environment = dict(os.environ)
    assert execute.execute("book/a/first.ipynb", book.root) is None
    assert dict(os.environ) == environment                                       # the chapter has its own
    first = path.read_bytes(), path.stat().st_mtime_ns
    assert execute.execute("book/a/first.ipynb", book.root) is None
    return path, first


def test_a_second_run_leaves_every_byte(stored):
    path, (text, time) = stored
    assert path.read_bytes() == text and path.stat().st_mtime_ns == time


def test_stored_notebook_is_normal(stored):
    notebook = nbformat.read(stored[0], as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == {"kernelspec": execute.KERNEL, "language_info": {"name": "python"}, "tangle": True}
    assert [c.id for c in notebook.cells] == [f"first-0{i}" for i in range(1, 7)]
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in code] == [1, 2, 3, 4, 5]
    assert [c.metadata for c in code] == [
        {}, {"tags": ["hide-input"]}, {"tags": ["hide-input"], "mystnb": {"image": {"alt": "A line that rises."}, "figure": {"caption": "See it rise."}}},
        {"tags": ["hide-cell"]}, {}]
    assert [o.text for o in code[0].outputs] == ["7\nnext\n"]                    # two prints, one output
    assert code[1].outputs[0].data == {"text/plain": "0.5"}
    assert set(code[2].outputs[0].data) == {"image/png", "text/plain"}
    assert code[3].source == "#| solution\nprint('solved')"
    assert code[4].outputs[0].text == "a\n"                                      # runs in its own folder
    assert "execution" not in json.dumps([c.metadata for c in code])             # no timing


def assert_refused(folder, cell, complaint):
    """The message names notebook and cell, and nothing is written."""
    path = Book(folder).chapter("first", "x = 1", cell)
    before = path.read_bytes()
    said = execute.execute("book/a/first.ipynb", folder)
    assert said.startswith("book/a/first.ipynb, cell first-03") and complaint in said
    assert path.read_bytes() == before


def test_a_name_alone_shows_its_value_only():
    tags = lambda source: execute.cell_metadata(nbformat.v4.new_code_cell(source)).get("tags")
    assert tags("costs") == ["remove-input"] and tags("costs.table()") is tags("x = costs") is None


@pytest.mark.parametrize("cell, complaint", [
    ("1 / 0", "ZeroDivisionError"),
    ("%no_such_magic", "no_such_magic"),
    (f"#| show\n{FIGURE}", "a figure without alt text"),
    (f"#| show\n#| alt:\n{FIGURE}", "a figure without alt text"),
    ("#| verify\nassert True", "must name the equations"),
    ("#| verify stick\nassert True", "must name the equations"),
    ("#| verify eq-a\nprint('fine')", "asserts nothing"),
    ("#| vrify eq-a\nassert True", "unknown marker"),
])
def test_refuses(tmp_path, cell, complaint):
    assert_refused(tmp_path, cell, complaint)


OUTPUTS = [
    ("import sys\nprint('careful', file=sys.stderr)", "writes to stderr: careful"),
    ("import warnings\nwarnings.warn('careful')", "writes to stderr"),
    ("#| show\n#| alt: Nothing.\n#| caption: None.\npass", "no figure appeared"),
    (f"#| show\n#| alt: A line.\n{FIGURE}", "a figure without a caption"),
    (f"#| show\n#| alt: A line.\n#| caption: A.\n#| colour: red\n{FIGURE}", "below the marker stand"),
    (FIGURE, "mark the cell '#| show'"),
    ("object()", "memory address"),
    ("from IPython.display import HTML\nHTML('<b>x</b>')", "stores text/html"),
    ("from IPython.display import Markdown\nMarkdown('*x*')", "stores text/markdown"),
]


@pytest.fixture(scope="module")
def recorded():
    """What a kernel, one for all of them, really puts out: {source: outputs}."""
    notebook = nbformat.v4.new_notebook(cells=[new_code_cell(source) for source in ("x = 1", *dict(OUTPUTS))])
    client = execute.NotebookClient(notebook, timeout=execute.TIMEOUT, startup_timeout=execute.TIMEOUT, kernel_name="python3")
    client.execute(env={name: value for name, value in os.environ.items() if name != "MPLBACKEND"})
    return {cell.source: cell.outputs for cell in notebook.cells}


@pytest.mark.parametrize("cell, complaint", OUTPUTS)
def test_refuses_an_output(tmp_path, monkeypatch, recorded, cell, complaint):
    class Replay:
        def __init__(self, notebook, **options):
            self.notebook = notebook

        def execute(self, env):
            for cell in self.notebook.cells[1:]:
                cell.outputs = recorded[cell.source]

    monkeypatch.setattr(execute, "NotebookClient", Replay)
    assert_refused(tmp_path, cell, complaint)


def html(text):
    """A cell whose result has this HTML."""
    cell = new_code_cell("table", outputs=[])
    cell.outputs = [nbformat.from_dict(new_output("execute_result", data={"text/plain": "table", "text/html": text}))]
    return cell


GOOD = Table(["method", "score"], [["CAVI & co", "-0.1"], ["<b>", None]], caption='What "it" says')
GOOD_HTML = GOOD._repr_html_()


def test_a_table_is_stored():
    assert execute.clean_outputs(html(GOOD_HTML))[0].data["text/html"] == GOOD_HTML
    for table in (Table(["a"], []), Table(["a", "b"], [["1", 2]] * 300, align="rl")):
        assert execute.clean_outputs(html(table._repr_html_()))


@pytest.mark.parametrize("old, new", [
    ("CAVI", "<script>1</script>"), ("CAVI", "<style>p {}</style>"), ("CAVI", "<img src=x>"), ("<td", "<td onclick='x()'"),
    ('<td class="number"', '<td class="number" onmouseover="x()"'), ('class="results"', 'class="results" style="color: red"'),
    ('scope="row"', ""), ('scope="col"', 'scope="row"'), ("<table", "<!-- --><table"), ("</table>", "</table><p>more</p>"),
    ("</table>", "</table>\n" + GOOD_HTML), ("</tbody>", ""), ("<td", "<td rowspan=2"),
])
def test_refuses_what_is_no_plain_table(old, new):
    assert old in GOOD_HTML
    with pytest.raises(execute.CellError, match="no table of experiments"):
        execute.clean_outputs(html(GOOD_HTML.replace(old, new)))


@pytest.mark.parametrize("check", ["assert x", "assert_allclose(a, b)", "np.testing.assert_equal(a, b)", "with pytest.raises(ValueError):\n    f()"])
def test_what_counts_as_a_check(check):
    assert execute.checks_something(check)


def test_neighbouring_streams_are_merged_but_not_across_a_result():
    stream, result = new_output("stream", name="stdout", text="a\n"), new_output("execute_result", data={"text/plain": "1"})
    cell = new_code_cell("print('a')", outputs=[stream, dict(stream), result, dict(stream)])
    cell.outputs = [nbformat.from_dict(o) for o in cell.outputs]
    assert [o.get("text") for o in execute.clean_outputs(cell)] == ["a\na\n", None, "a\n"]


@pytest.mark.parametrize("change, kept", [(0, True), (3, True), (60, False)])
def test_a_figure_that_shows_the_same_keeps_its_bytes(change, kept):
    def notebook(pixel, level):
        file = io.BytesIO()
        Image.fromarray(np.full((4, 4), 100, np.uint8) + np.uint8(pixel) * np.eye(4, dtype=np.uint8)).save(file, "png", compress_level=level)
        png = base64.b64encode(file.getvalue()).decode()
        return nbformat.v4.new_notebook(cells=[new_code_cell(outputs=[new_output("display_data", data={"image/png": png})])])

    new, old = notebook(change, 1), notebook(0, 9)
    before, stored = (n.cells[0].outputs[0].data["image/png"] for n in (new, old))
    assert before != stored
    execute.keep_same_pictures(new, old)
    assert new.cells[0].outputs[0].data["image/png"] == (stored if kept else before)


def test_command_line_reports_every_failing_chapter(tmp_path, capsys):
    book = Book(tmp_path)
    book.chapter("first", "1 / 0")
    book.chapter("second", "print('fine')")
    assert execute.main(["--jobs", "2"], book.root) == 1
    said = capsys.readouterr()
    assert "book/a/first.ipynb, cell first-02" in said.err and "executed book/a/second.ipynb" in said.out
