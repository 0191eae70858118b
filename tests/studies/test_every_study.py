"""What every study owes its reader, checked on each in seconds: one step of every arm, then all it says and shows."""

import pytest

from featscope.check import check
from featscope.registry import entries, find

NAMES = [name for name, entry in entries().items() if entry.target.startswith("featscope.")]


@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_every_arm_then_all_claims_and_figures(name):
    _, kind = find(name)
    checked = check(kind())
    assert not checked.problems, "\n".join(checked.problems)
    assert checked.claims >= len(kind.tests)  # each is judged on some arm
    assert checked.figures


@pytest.mark.parametrize("name", NAMES)
def test_claims_have_titles_of_their_own_and_arms_have_roles_and_labels(name):
    _, kind = find(name)
    titles = [statement.title for statement in kind.statements()]
    assert len(set(titles)) == len(titles)
    assert all(len(title) <= 110 and not title.endswith(".") for title in titles)
    small = kind().smallest()
    arms = list(small.arms())
    labels = [arm.label or arm.name for arm in arms]
    assert len(set(labels)) == len(labels)
    role = {arm.name: arm.role for arm in arms}
    judged = [(test, arm, expected) for test in small.tests for arm, (expected, _) in test.arms(small).items()]
    # A claim that holds everywhere may be unable to fail.
    assert "control" in role.values() or not all(expected for *_, expected in judged)
    assert not [(test.statement.id, arm) for test, arm, expected in judged if expected and role.get(arm) == "control"]
