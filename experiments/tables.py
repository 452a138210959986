"""A table on a page: plain semantic HTML in the book, fixed width in a terminal."""

import re
from html import escape

import numpy as np

EMPTY = "–"                                              # what stands in a cell that is None
NUMBER = re.compile(r"[+\-−±<>≤≥~]*\s*[\d.]|(nan|inf|-inf)$")


def text(cell):
    """A cell as text.  A float is refused: how many digits are right is for the caller to say."""
    if cell is None:
        return EMPTY
    if isinstance(cell, (float, np.floating)):
        raise TypeError(f"expected text or a whole number in a cell, got {cell!r}; round it, e.g. f'{{x:.3f}}'")
    return " ".join(str(cell).split())


def typeset(cell):
    """HTML of a cell: escaped, with a minus sign where a hyphen stands for one."""
    return re.sub(r"(?<![\w.)])-(?=\.?\d)", "−", escape(cell))


class Table:
    """Rows below a head, for the last line of a cell: the first column names the rows.

    head: a title for every column.  rows: cells are text or whole numbers, None for an empty one.
    align: a letter per column, "l" or "r"; None: "r" where every filled cell begins like a number, but "l" for the first column.
    caption: one sentence that says what the table shows.
    """

    def __init__(self, head, rows, align=None, caption=None):
        self.head, self.rows = [text(cell) for cell in head], [[text(cell) for cell in row] for row in rows]
        self.caption = None if caption is None else text(caption)
        width = len(self.head)
        if not width or not all(self.head) or EMPTY in self.head:
            raise ValueError(f"expected a title for every column, got {self.head}")
        if wrong := [row for row in self.rows if len(row) != width]:
            raise ValueError(f"expected rows of {width} cells, got {wrong[0]}")
        self.align = self._guess() if align is None else align
        if len(self.align) != width or set(self.align) - set("lr"):
            raise ValueError(f"expected align of {width} letters l and r, got {align!r}")

    def _guess(self):
        columns = [[row[j] for row in self.rows if row[j] != EMPTY] for j in range(1, len(self.head))]
        return "l" + "".join("r" if filled and all(map(NUMBER.match, filled)) else "l" for filled in columns)

    def _repr_html_(self):
        css = ['' if side == "l" else ' class="number"' for side in self.align]
        lines = ['<table class="results">']
        if self.caption:
            lines.append(f"<caption>{typeset(self.caption)}</caption>")
        lines += ["<thead>", "<tr>" + "".join(f'<th scope="col"{c}>{typeset(t)}</th>' for c, t in zip(css, self.head)) + "</tr>", "</thead>",
                  "<tbody>"]
        for name, *cells in self.rows:
            lines.append(f'<tr><th scope="row"{css[0]}>{typeset(name)}</th>'
                         + "".join(f"<td{c}>{typeset(t)}</td>" for c, t in zip(css[1:], cells)) + "</tr>")
        return "\n".join([*lines, "</tbody>", "</table>"])

    def __repr__(self):
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows)]
        pad = {"l": str.ljust, "r": str.rjust}
        lines = ["  ".join(pad[side](cell, w) for side, cell, w in zip(self.align, row, widths)).rstrip() for row in (self.head, *self.rows)]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join(([self.caption] if self.caption else []) + lines)
