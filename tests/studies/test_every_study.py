"""What every study owes its reader, checked on each in seconds: one step of every arm, then all it says and shows."""

import numpy as np
import pytest
from one_step import EACH, checked, one_step

from featscope.claims import statement
from featscope.claims.samples import Asked
from featscope.figures import Bars, Curves, Figure
from featscope.registry import find
from featscope.report.run_report import content
from featscope.runs.diverged import without_diverged


@pytest.mark.parametrize("name", EACH)
def test_a_step_of_every_arm_then_all_claims_and_figures(name):
    found, study, _ = checked(name)
    assert not found.problems, "\n".join(found.problems)
    assert found.claims >= len(study.tests)  # each is judged on some arm
    assert found.figures


@pytest.mark.parametrize("name", EACH)
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
    # A control on which no claim is judged shows nothing.
    assert not {arm for arm in role if role[arm] == "control"} - {arm for _, arm, _ in judged}
    assert not [(test.statement.id, arm) for test, arm, expected in judged if expected and role.get(arm) == "control"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_of_every_arm_something_is_expected(name, monkeypatch):
    """Else it can be broken, and what is not expected of it goes on failing. Controls have their own rule."""
    small, runs = one_step(name)
    study, looked_at = find(name)[1](), list[Asked]()

    class Noted(Asked):
        def __init__(self, runs):
            super().__init__(runs)
            looked_at.append(self)

    monkeypatch.setattr(statement, "Asked", Noted)
    read = set()
    for test in study.tests:
        expected = {arm for arm, (holds, _) in test.arms(study).items() if holds and test.of_runs}
        for arm in expected & runs.keys() & test.arms(small).keys():
            test.judge(small, arm, runs)
            read |= {arm} if "run" in test.wants else set()
    read |= {arm for asked in looked_at for arm in asked.arms}
    silent = {arm.name for arm in study.arms() if arm.role == "arm" and arm.name in runs} - read
    assert not silent


def _words_of(figure: Figure) -> set[str]:
    """What stands beside lines and bars, and above panels."""
    if isinstance(figure, Bars):
        return {*figure.groups, *figure.series}
    if isinstance(figure, Curves):
        return {word for panel in figure.panels for word in (panel.title, *(curve.label for curve in panel.curves))}
    panels = getattr(figure, "panels", {})
    return {*panels} if isinstance(panels, dict) else set()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_figures_call_arms_by_their_labels(name):
    study, runs = one_step(name)
    words = {word for figure in study.figures(runs) for word in _words_of(figure)}
    names = [arm.name for arm in study.arms() if set("-=") & set(arm.name) and arm.label != arm.name]
    assert not [(word, arm) for word in words for arm in names if arm in word]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_figures_say_which_claims_they_show(name):
    study, runs = one_step(name)
    silent = [figure.id for figure in study.figures(runs) if not figure.claims]
    assert silent == (["over-steps"] if name == "longtail-images" else [])  # loss and norm of weights: none is of these


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_nothing_is_decided_by_a_replica_that_diverged(name):
    """On arms over axes, where others go on: pages are drawn, and claims on such an arm undecided."""
    study, runs = one_step(name)
    broken = dict(runs)
    for arm in study.arms():
        if arm.over:
            lost = runs[arm.name]["diverged"].copy(data=np.full(runs[arm.name]["diverged"].shape, -1))
            lost.values[(0,) * lost.ndim] = 1
            broken[arm.name] = without_diverged(runs[arm.name].assign(diverged=lost))
    before, after = ({(claim.id, claim.arm): claim.verdict for claim in study.claims(r)} for r in (runs, broken))
    assert after.keys() == before.keys()
    assert not {key: verdict for key, verdict in after.items() if verdict not in ("undecided", before[key])}
    about_it = {test.statement.id for test in study.tests if test.of_divergence or not test.of_runs}
    lost = {arm.name for arm in study.arms() if arm.over}
    decided = {key for key, verdict in after.items() if key[1] in lost and verdict != "undecided"}
    assert {id for id, _ in decided} <= about_it
    assert any(arm.over for arm in study.arms()) == bool(content(study, broken, study.claims(broken)).warnings)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.parametrize("name", EACH)
def test_the_first_screen_has_its_words(name: str) -> None:
    study, runs = one_step(name)
    said = content(study, runs, study.claims(runs))
    assert said.question.endswith("?")
    assert "\n" not in said.question
    assert 20 < len(said.found) < 200
    assert said.found[-1] in ".?"
    assert len(said.lede) > 80
    assert "nan" not in f"{said.found} {said.lede} {' '.join(said.headlines.values())}".lower().split()
    ids = {claim.id for claim in said.claims} | {f"{claim.id}@{claim.arm}" for claim in said.claims}
    assert 3 <= len(ids.intersection(said.headlines)) <= 5  # some are of arms that other options add
    assert said.figures[0].claims
