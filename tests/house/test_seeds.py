"""No draw of the book or of the package hangs on chance: every generator has a seed, in figures too."""

import ast

import pytest
from tangle import PACKAGE, ROOT, cell_name, read_chapters

MAKERS = {"default_rng", "RandomState", "SeedSequence", "Random", "PCG64", "Philox", "SFC64", "MT19937"}
HARMLESS = MAKERS | {"Generator", "BitGenerator", "seed", "get_state", "set_state"}


def sources():
    """(where, source) of every code cell and of every file of the package."""
    for path, notebook in read_chapters(ROOT).items():
        stem = path.rpartition("/")[2][:-6]
        yield from ((f"{path}, cell {cell_name(stem, i)}", c.source) for i, c in enumerate(notebook.cells) if c.cell_type == "code")
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), file.read_text()


def dotted(node):
    """numpy.random.normal of the expression; the empty text for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def asked_for(tree):
    """Calls in `... if rng is None else ...`: whoever calls with rng=None asks for chance."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and isinstance(node.test, ast.Compare) and ast.unparse(node.test) == "rng is None":
            yield node.body


def unseeded(source):
    """Lines of calls that make a generator without a seed, or draw from the generator that all of numpy shares."""
    if not any(word in source for word in (*MAKERS, "random")):
        return
    tree = ast.parse(source)
    allowed = list(asked_for(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in allowed:
            owner, _, name = dotted(node.func).rpartition(".")
            given = [*node.args, *(k.value for k in node.keywords)]
            nothing = not given or (isinstance(given[0], ast.Constant) and given[0].value is None)
            if name in MAKERS and nothing or owner.split(".")[-2:] in (["np", "random"], ["numpy", "random"]) and name not in HARMLESS:
                yield node.lineno


def test_every_generator_has_a_seed():
    assert [f"{where}, line {line}" for where, source in sources() for line in unseeded(source)] == []


@pytest.mark.parametrize("source, bad", [
    ("rng = default_rng()", True), ("rng = np.random.default_rng(None)", True), ("x = np.random.default_rng(seed=None).normal()", True),
    ("np.random.normal(size=3)", True), ("numpy.random.shuffle(x)", True), ("RandomState().rand()", True), ("f(default_rng().normal)", True),
    ("rng = default_rng() if x is None else rng", True), ("r = default_rng(1) if rng is None else default_rng()", True),
    ("rng = default_rng() if rng is None else check(rng)", False), ("rng = default_rng(0)", False), ("rng = np.random.default_rng([seed, 1])", False), ("np.random.default_rng(seed=seed)", False),
    ("rng.normal(size=3)", False), ("default_rng", False)])
def test_the_lint_sees_what_it_should(source, bad):
    assert bool(list(unseeded(source))) == bad
