"""What a learner is told: its defaults, and over them what the user asks for."""

import pytest

from cmn_literate import CMNClassifier
from cmn_literate.learners import LEARNERS, find_learner, learner_options


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_what_is_asked_for_takes_the_place_of_the_default(name):
    defaults = find_learner(name).options
    assert learner_options(CMNClassifier.paper(method=name)) == defaults
    for option, value in defaults.items():
        if option != "checkpoint":
            asked = learner_options(CMNClassifier.paper(method=name, method_options={option: (value, "asked")}))
            assert asked == {**defaults, option: (value, "asked")}
