"""The mutation machine at work: a fixed sample always, every mutant under `-m slow`; and proof that the machine can say no."""
import ast

import mutants
import pytest
from mutants import MUTANTS, SAMPLE, Mutant, chapters, control, line, occurrences, try_mutant
from tangle import ABOVE, PLAIN

TANGLED = tuple(chapters())


def test_every_mutant_still_applies():
    """The text to change occurs exactly once, in an export cell of the module's chapter; ids are unique."""
    assert len({m.id for m in MUTANTS}) == len(MUTANTS) >= 40
    stale = [f"{m.id}: {occurrences(m)} times in {m.module}" for m in MUTANTS if occurrences(m) != 1]
    assert not stale, stale
    owner = chapters()
    for m in MUTANTS:
        assert m.old != m.new
        if m.module not in (*PLAIN, *ABOVE):
            mutants.script_of(owner[m.module], m)


def test_every_module_has_mutants():
    assert {m.module for m in MUTANTS} == {*TANGLED, *PLAIN, *ABOVE}
    assert len(set(SAMPLE)) == 10


@pytest.mark.parametrize("module", TANGLED)
def test_checks_need_no_figure(module):
    """A fault is looked for by a chapter's cells without those of figures and solutions; no name may be missing then."""
    trees = {cell.source: ast.parse(cell.source) for cell in mutants.nbformat.read(chapters()[module], as_version=4).cells if cell.cell_type == "code"}
    run = {source for _, source in mutants.cells_of(chapters()[module])}

    def names(kind, sources):
        found = set()
        for node in (node for source in sources for node in ast.walk(trees[source])):
            if isinstance(node, ast.Name) and isinstance(node.ctx, kind):
                found.add(node.id)
            elif kind is ast.Store and isinstance(node, (ast.alias, ast.arg)):
                found.add((node.asname or node.name).split(".")[0] if isinstance(node, ast.alias) else node.arg)
            elif kind is ast.Store and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
        return found

    only_there = names(ast.Store, trees.keys() - run) - names(ast.Store, run)
    assert not only_there & names(ast.Load, run)


@pytest.mark.parametrize("name", SAMPLE)
def test_sample_is_killed(name):
    (mutant,) = (m for m in MUTANTS if m.id == name)
    outcome = try_mutant(mutant, chapters())
    print(line(outcome))
    assert outcome.killed_by and not outcome.problem, line(outcome)


@pytest.mark.slow
def test_a_harmless_change_survives_and_a_stale_one_is_invalid():
    """The machine must be able to report what it is there to report."""
    owner = chapters()
    harmless = Mutant("harmless", "stick_breaking", "axis=-1)[..., :0:-1]", "axis=-1)[..., :0:-1] + 0")
    outcome = try_mutant(harmless, owner)
    assert not outcome.killed_by and not outcome.problem and "SURVIVED" in line(outcome)
    stale = try_mutant(harmless._replace(old="no such text"), owner)
    assert "occurs 0 times" in stale.problem and not stale.killed_by
    twice = try_mutant(harmless._replace(old="np."), owner)
    assert "times in stick_breaking.py" in twice.problem and not twice.killed_by
    nobody_looks = try_mutant(harmless._replace(tests=("test_that_is_missing.py",)), owner)
    assert "pytest ended with 4" in nobody_looks.problem and not nobody_looks.killed_by
    broken = try_mutant(harmless._replace(new="axis=-1)[..., :0:-1] + nobody"), owner)
    assert "breaks the module" in broken.problem


@pytest.mark.slow
def test_without_a_fault_everything_passes():
    failed = [(what, failure) for what, _, failure in control(MUTANTS, chapters(), jobs=1) if failure]
    assert not failed, failed


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.id)
def test_every_mutant_is_killed(mutant):
    outcome = try_mutant(mutant, chapters())
    print(line(outcome))
    assert outcome.killed_by and not outcome.problem, line(outcome)
