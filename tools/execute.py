"""Execute the chapters and store their outputs in a form that a second run reproduces byte for byte.

    python tools/execute.py [notebook ...] [--jobs N]

A chapter runs in its own folder with the repository on PYTHONPATH. A cell that raises, writes to
stderr, or stores anything but text, PNG and plain tables is an error, and nothing is written.
"""

import argparse
import ast
import base64
import io
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError
from PIL import Image
from tangle import ROOT, TangleError, cell_name, folded, header, marker, option, read_chapters, write_atomically

os.environ["CMN_KERNEL"] = "numpy"                    # stored numbers do not depend on whether numba is there
TIMEOUT = 600                                       # seconds for a cell, and for a kernel to start: the last resort against a hang
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
FORMATS = {"text/plain", "image/png", "text/html"}  # the last for a table alone
CELL = r"[^<>\"]*"
NUMBER = r'(?: class="number")?'
# what experiments.tables.Table writes, letter by letter: there is no room for a script, a style or an attribute of another name
TABLE = re.compile(rf'''<table class="results">
(?:<caption>{CELL}</caption>
)?<thead>
<tr>(?:<th scope="col"{NUMBER}>{CELL}</th>)+</tr>
</thead>
<tbody>
(?:<tr><th scope="row"{NUMBER}>{CELL}</th>(?:<td{NUMBER}>{CELL}</td>)*</tr>
)*</tbody>
</table>''')


class CellError(Exception):
    """A cell that may not be stored; the message says why."""


def checks_something(source):
    """Whether the cell holds an assert statement or a call of an assert_ function."""
    return any(isinstance(node, ast.Assert) or
               isinstance(node, ast.Call) and re.search(r"(^|\.)(assert_\w+|raises)$", ast.unparse(node.func))
               for node in ast.walk(ast.parse(source)))


def cell_metadata(cell):
    """Metadata of a code cell, derived from its marker alone."""
    try:
        kind, labels = marker(cell)
    except TangleError as error:
        raise CellError(str(error)) from None
    if kind == "show" and not option(cell.source, "alt"):
        raise CellError("a figure without alt text; put '#| alt: ...' below '#| show'")
    if kind == "show" and not option(cell.source, "caption"):
        raise CellError("a figure without a caption; put '#| caption: ...' below '#| show'")
    if kind == "verify":
        if not labels or not all(label.startswith("eq-") for label in labels):
            raise CellError("'#| verify' must name the equations it checks, e.g. '#| verify eq-stick'")
        try:
            if not checks_something(cell.source):
                raise CellError("a verify cell that asserts nothing")
        except SyntaxError as error:
            raise CellError(f"line {error.lineno}: {error.msg}") from None
    for line in header(cell.source)[1:]:
        if not line.startswith(("#| alt:", "#| caption:", "#| name:")):
            raise CellError(f"{line!r}; below the marker stand '#| caption:', '#| alt:' and '#| name: fig-...'")
    tag = "hide-cell" if kind == "solution" else "hide-input" if folded(cell) else "remove-input" if cell.source.isidentifier() else None
    metadata = {"tags": [tag]} if tag else {}                # a name alone shows a table, and says nothing beside it
    picture = {"image": {"alt": option(cell.source, "alt")}} if option(cell.source, "alt") else {}
    if option(cell.source, "caption"):
        name = option(cell.source, "name")
        picture["figure"] = {"caption": option(cell.source, "caption")} | ({"name": name} if name else {})
    if picture:
        metadata["mystnb"] = picture
    return metadata


def clean_outputs(cell):
    """Outputs of an executed code cell: neighbouring prints merged, anything unrepeatable refused."""
    outputs, (kind, _) = [], marker(cell)
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                raise CellError(f"writes to stderr: {output.text.strip()[:600]}")
            if outputs and outputs[-1].output_type == "stream":
                outputs[-1].text += output.text
                continue
        elif output.output_type == "error":
            raise CellError(f"raised {output.ename}")
        else:
            output.metadata = {}
            if extra := sorted(set(output.data) - FORMATS):
                raise CellError(f"stores {', '.join(extra)}; print text or draw a figure instead")
            if "text/html" in output.data and not TABLE.fullmatch(output.data["text/html"]):
                raise CellError("stores text/html that is no table of experiments.tables; print text or show a Table instead")
            if "image/png" in output.data and not (kind in ("show", "solution") and option(cell.source, "alt")):
                raise CellError("draws a figure; mark the cell '#| show' and give it '#| alt: ...' lines")
        outputs.append(output)
    for output in outputs:
        text = output.text if output.output_type == "stream" else " ".join(output.data.get(f, "") for f in ("text/plain", "text/html"))
        if re.search(r"\b0x[0-9a-f]{6,}", text):
            raise CellError(f"stores a memory address ({text.strip()[:80]}); end the cell with plt.show() or a print")
    if kind == "show" and not any("image/png" in o.get("data", {}) for o in outputs):
        raise CellError("'#| show' but no figure appeared")
    return outputs


def same_picture(png, other):
    """Whether two PNGs show the same; their bytes may differ, because encoders and processors do."""
    a, b = (np.asarray(Image.open(io.BytesIO(base64.b64decode(p))), dtype=int) for p in (png, other))
    return a.shape == b.shape and np.abs(a - b).max() <= 8          # of 255


def keep_same_pictures(notebook, stored):
    """Keep the stored bytes of every figure that still shows the same."""
    for cell, old_cell in zip(notebook.cells, stored.cells):
        for output, old in zip(cell.get("outputs", []), old_cell.get("outputs", [])):
            png, old_png = (o.get("data", {}).get("image/png") for o in (output, old))
            if png and old_png and png != old_png and same_picture(png, old_png):
                output.data["image/png"] = old_png


def notebook_metadata(notebook):
    """Metadata of a chapter: no versions, no tools, only what the book and the tangler need."""
    tangles = notebook.metadata.get("tangle")
    return nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}} | ({"tangle": tangles} if tangles else {}))


def normalise(notebook, stem):
    """Everything but sources, outputs and execution counts is derived, so that it cannot vary."""
    notebook.metadata = notebook_metadata(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for index, cell in enumerate(notebook.cells):
        cell.id = cell_name(stem, index)
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip("\n").splitlines())
        cell.metadata = {}
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            try:
                cell.metadata = nbformat.from_dict(cell_metadata(cell))
            except CellError as error:
                raise CellError(f"cell {cell.id}: {error}") from None


def execute(path, root=ROOT):
    """Run one chapter and store it. Returns None, or a message that names notebook and cell."""
    file = root / path
    notebook = nbformat.read(file, as_version=4)
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    env.pop("MPLBACKEND", None)                             # figures belong into the notebook
    client = NotebookClient(notebook, timeout=TIMEOUT, startup_timeout=TIMEOUT, iopub_timeout=TIMEOUT, kernel_name="python3",
                            record_timing=False, resources={"metadata": {"path": str(file.parent)}})
    try:
        normalise(notebook, file.stem)
        client.execute(env=env)
        notebook.metadata = notebook_metadata(notebook)         # the kernel has added its version
        for cell in notebook.cells:
            if cell.cell_type == "code":
                try:
                    cell.outputs = clean_outputs(cell)
                except CellError as error:
                    raise CellError(f"cell {cell.id}: {error}") from None
    except CellError as error:
        return f"{path}, {error}"
    except (CellExecutionError, CellControlSignal, DeadKernelError) as error:
        # the cell that stopped the run is the last one that was started
        failed = next((c for c in notebook.cells if any(o.output_type == "error" for o in c.get("outputs", []))), None)
        started = [c for c in notebook.cells if c.get("execution_count") or c.get("outputs")]
        cell = failed or (started or notebook.cells)[-1]
        return f"{path}, cell {cell.id}:\n" + re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    keep_same_pictures(notebook, nbformat.read(file, as_version=4))
    text = nbformat.writes(notebook, version=4) + "\n"
    if text != file.read_text(encoding="utf-8"):
        write_atomically(file, text)
    return None


def main(argv=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="chapters to execute (default: all under book/)")
    parser.add_argument("--jobs", type=int, default=1, help="chapters to run at the same time")
    args = parser.parse_args(argv)
    paths = [Path(n).resolve().relative_to(root).as_posix() for n in args.notebooks] or list(read_chapters(root))
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for path, problem in zip(paths, pool.map(execute, paths, [root] * len(paths)), strict=True):
            print(f"execute: {problem}" if problem else f"executed {path}", file=sys.stderr if problem else sys.stdout)
            failed += problem is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
