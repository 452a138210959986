"""experiments/tables.py: tables as HTML and as text."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from experiments.tables import EMPTY, Table


def small():
    return Table(["method", "log score", "right"], [["CAVI", "-0.153", 3], ["ridge <1e-3>", "-.2", None]], caption="Two & two")


def test_html_is_a_semantic_table():
    tree = ET.fromstring(small()._repr_html_().replace("−", "-"))              # well formed
    assert [child.tag for child in tree] == ["caption", "thead", "tbody"] and tree[0].text == "Two & two"
    assert [(th.tag, th.get("scope"), th.get("class"), th.text) for th in tree[1][0]] == [
        ("th", "col", None, "method"), ("th", "col", "number", "log score"), ("th", "col", "number", "right")]
    assert [[(c.tag, c.get("scope"), c.get("class"), c.text) for c in row] for row in tree[2]] == [
        [("th", "row", None, "CAVI"), ("td", None, "number", "-0.153"), ("td", None, "number", "3")],
        [("th", "row", None, "ridge <1e-3>"), ("td", None, "number", "-.2"), ("td", None, "number", EMPTY)]]
    assert not re.search(r"style|script|\bon\w+=", small()._repr_html_())


def test_only_a_sign_becomes_a_minus():
    (row,) = re.findall(r"<tr><th scope=.row.*", Table("abcd", [["x-2", "1e-14", "-.5 to -2", "10-20"]])._repr_html_())
    assert re.findall(r">([^<]+)<", row) == ["x-2", "1e-14", "−.5 to −2", "10-20"]


def test_text_is_of_fixed_width():
    assert repr(small()).splitlines() == [
        "Two & two",
        "method        log score  right",
        "------------  ---------  -----",
        "CAVI             -0.153      3",
        f"ridge <1e-3>        -.2      {EMPTY}"]


def test_columns_of_numbers_stand_on_the_right():
    rows = [["1", "0.3 ± 0.1", "none", "-2", None], ["2", "+1", "4", "<1", None]]
    assert Table("abcde", rows).align == "lrlrl"
    assert Table("abcde", rows, align="rrrrr").align == "rrrrr"


@pytest.mark.parametrize("arguments, complaint", [
    ((["a", ""], []), "a title for every column"), (([], []), "a title for every column"), ((["a"], [["1", "2"]]), "rows of 1 cells"),
    ((["a"], [], "x"), "1 letters l and r"), ((["a"], [], "ll"), "1 letters l and r")])
def test_refuses(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        Table(*arguments)


@pytest.mark.parametrize("number", [0.1, np.float64(0.1), np.float32(2)])
def test_refuses_a_number_that_nobody_rounded(number):
    with pytest.raises(TypeError, match="round it"):
        Table(["a"], [[number]])
