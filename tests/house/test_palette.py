"""One look for the whole book: colours that differ, marks that differ without them, and no figure with colours of its own."""

import re

import pytest
from cmn_literate import palette
from matplotlib import style
from matplotlib.colors import to_rgb
from tangle import ROOT, cell_name, marker, read_chapters


def contrast(colour, other="#FFFFFF"):
    """Contrast of two colours, 1 to 21."""
    light = [sum(w * (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4) for w, v in zip((0.2126, 0.7152, 0.0722), to_rgb(c)))
             for c in (colour, other)]
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("place, table", [(0, "METHODS"), (1, "METHODS"), (0, "CLASSES"), (1, "CLASSES"), (2, "CLASSES"), (0, "EXPERTS"), (1, "EXPERTS")])
def test_no_two_look_alike(place, table):
    rows = getattr(palette, table)
    looks = [row[place] for row in (rows.values() if table == "METHODS" else rows)]
    assert len(set(looks)) == len(looks)


def test_marks_stand_out_and_regions_do_not():
    for colour, pale, _ in palette.CLASSES:
        assert contrast(colour) >= 3 and contrast(colour, pale) >= 3 > 1.5 >= contrast(pale)
    assert all(contrast(colour) >= 1.9 for colour, _, _ in palette.METHODS.values())


def test_keywords():
    assert palette.method("cavi") == {"color": "#0072B2", "marker": "o", "linestyle": "-"}
    with pytest.raises(ValueError, match="^name: expected one of cavi, .*, got 'sgd'$"):
        palette.method("sgd")
    n = len(palette.CLASSES)
    assert palette.rows(n) == palette.rows(0) != palette.rows(1) and palette.region(n + 1) == palette.CLASSES[1][1]
    assert palette.expert(8) == palette.expert(0) == {"facecolor": "#0072B2", "hatch": ""} and palette.expert(1)["hatch"] == "//"


def test_the_style_begins_with_the_same_colours():
    with style.context("cmn_literate.book"):
        from matplotlib import rcParams
        cycle = [f"#{c.lstrip('#')}".upper() for c in rcParams["axes.prop_cycle"].by_key()["color"]]
    assert cycle[:3] == [palette.CLASSES[c][0] for c in range(3)]


def test_no_figure_has_a_colour_of_its_own():
    """A literal colour in a cell is one of the palette, a shade of grey, or a place in the cycle."""
    known = {c.upper() for table in (palette.CLASSES, palette.EXPERTS, palette.METHODS.values()) for row in table for c in row if c.startswith("#")}
    known |= {palette.INK, palette.GREY, palette.PALE, "#FFFFFF"}
    found = []
    for path, notebook in read_chapters(ROOT).items():
        for i, cell in enumerate(notebook.cells):
            if cell.cell_type == "code" and (marker(cell)[0] in ("show", "solution", "setup")):
                odd = [c for c in re.findall(r"#[0-9A-Fa-f]{6}\b", cell.source) if c.upper() not in known]
                odd += re.findall(r"""["'](?:tab:\w+|red|green|blue|orange|purple|cyan|magenta|yellow)["']""", cell.source)
                found += [f"{path}, cell {cell_name(path.rpartition('/')[2][:-6], i)}: {c}" for c in odd]
    assert not found, "\n".join(found)
