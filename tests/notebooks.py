"""A tiny book in a temporary folder, for the tests of the tools."""

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


class Book:
    """Chapters `a/first`, `a/second` ... in this order; `chapter` writes one and returns its path."""

    def __init__(self, root, names=("first", "second", "third")):
        self.root = root
        (root / "book/a").mkdir(parents=True)
        (root / "cmn_literate/a").mkdir(parents=True)
        for folder in ("cmn_literate", "cmn_literate/a"):
            (root / folder / "__init__.py").write_text("")
        (root / "_toc.yml").write_text("root: book/intro\nchapters:\n" + "".join(f"- file: book/a/{n}\n" for n in names))

    def chapter(self, name, *cells, tangle=True):
        """Cells are sources of code cells; a source that starts with '# ' is Markdown."""
        cells = [new_markdown_cell(c) if c.startswith("# ") else new_code_cell(c) for c in ("# Title\n\n**Claim.** Doubling is easy.", *cells)]
        path = self.root / f"book/a/{name}.ipynb"
        nbformat.write(new_notebook(cells=cells, metadata={"tangle": tangle}), path)
        return path

    def module(self, name):
        return self.root / f"cmn_literate/a/{name}.py"
