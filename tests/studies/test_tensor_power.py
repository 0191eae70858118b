"""The study of the tensor power method, small: what holds, what must not, what it refuses, and planted faults.

Seed 0 is fixed. At another seed each interval of a claim that holds misses its mean once in a hundred.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from small_tensor_power import STUDY, arms, healthy, judged, runs, train

from featscope.options import ConfigError
from featscope.studies.tensor_power import TensorPower, judge
from featscope.theory import tensor_power as theory
from featscope.training import power_method
from featscope.training.power_method import PowerSequences

CONTROLS = {"large-factors", "overtaken", "wrong-power", "linear"}
WRONG = {("weighted-lower-bound", "steep"), ("sum-is-square", "starts"), ("sum-is-end", "starts")}


def test_what_is_expected_holds_and_what_is_not_fails():
    for key, claim in healthy().items():
        assert claim.verdict == ("holds" if claim.expected else "fails"), key


def test_only_what_the_page_calls_wrong_is_not_expected_outside_controls():
    assert {key for key, claim in healthy().items() if not claim.expected and key[1] not in CONTROLS} == WRONG
    assert {arm.name for arm in STUDY.arms() if arm.control} == CONTROLS


def test_every_statement_is_put_to_the_test_and_no_claim_is_made_twice():
    claims = list(STUDY.claims(runs()))
    assert {claim.id for claim in claims} == {statement.id for statement in TensorPower.statements}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)


def test_every_statement_fails_somewhere_or_has_a_planted_fault():
    failing = {claim.id for claim in healthy().values() if claim.verdict == "fails"}
    assert failing | {fault.claim for fault in FAULTS.values()} == {s.id for s in TensorPower.statements}


def test_sequences_that_have_not_passed_decide_nothing():
    short = replace(arms()["step-sizes"], config=replace(STUDY, steps=2))
    claims = judged({**runs(), "step-sizes": train(short)})
    found = {claim.verdict for (_, arm), claim in claims.items() if arm == "step-sizes"}
    assert found == {"undecided"}


def test_figures_and_headline_have_the_numbers():
    claims = list(healthy().values())
    drawn = list(STUDY.figures(runs(), claims))
    assert [figure.id for figure in drawn] == ["paths", "step-sizes", "mended"]
    for figure in drawn:
        for panel in figure.panels:
            assert all(np.isfinite(curve.y).all() for curve in panel.curves), panel.title
    time, against = drawn[0].panels
    assert time.curves[0].y[-1] > STUDY.level
    assert {curve.label for curve in against.curves} >= {"behind: lead 0.9", "power 1"}
    assert "weighted-lower-bound" in STUDY.headline(runs(), claims)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 0}, r"power = 0 .* >= 1"),
        ({"step_size": 1.0}, r"step_size = 1.0 .* \(0, 1\)"),
        ({"start": 0.8}, r"start = 0.8 .* \(0, 0.8\)\. Sequences begin below `level`"),
        ({"power": 1, "strongest": 2.0}, r"strongest = 2.0 .* 1 where power = 1"),
        ({"spread": float("nan")}, r"spread = nan .* finite"),
        ({"sequences": 0}, r"sequences = 0 .* >= 1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        TensorPower(**options)


@pytest.mark.parametrize(("power", "weight", "cure"), [(5, 4, "Lemma G.3"), (3, 1, "judged as if it were 3")])
def test_powers_that_arms_cannot_use_are_refused(power, weight, cure):
    with pytest.raises(ConfigError, match=cure):
        TensorPower(power=power, weight=weight).arms()


# --- planted faults -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it; running ``arm`` again shows it to ``claim``."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str


add, follow = PowerSequences._add, PowerSequences._follow


def without_the_last_step(self, x, push, factor, moving):
    after = torch.cat([moving[:, 1:], moving[:, -1:] & ~moving[:, :1]], 1)
    add(self, x, push, factor, moving & after)


def with_one_step_more(self, x, push, factor, moving):
    before = torch.cat([moving[:, :1], moving[:, :-1]], 1)
    add(self, torch.where(moving, x, 1.0), push, factor, before | moving)


def a_power_more(self, push):
    path = torch.empty(len(push) + 1, *self.state.shape, dtype=push.dtype)
    path[0] = self.state
    for now, then, pushed in zip(path[:-1], path[1:], push, strict=True):
        then.copy_(now + pushed * now ** (self.power + 1))
    return path


def without_strength(self, push):
    return follow(self, push[:, :, :1].expand_as(push))


def of_another_weight(self, x, push, factor, moving):
    add(self, x, push, factor, moving)
    self.weighted += torch.where(moving, push * x**self.weight * (x - 1), 0.0).sum(1)


def an_area_without_x(self, x, push, factor, moving):
    add(self, x, push, factor, moving)
    self.area += torch.where(moving, push * x**self.power * (1 - x), 0.0).sum(1)


limit, printed = theory.sum_limit, theory.weighted_lower_bound

FAULTS = {
    "the last step is not counted": Fault(
        PowerSequences, "_add", without_the_last_step, "first-order-term", "step-sizes"
    ),
    "one step too many": Fault(PowerSequences, "_add", with_one_step_more, "first-order-term", "step-sizes"),
    "a power more": Fault(PowerSequences, "_follow", a_power_more, "small-step-limit", "step-sizes"),
    "a power more, floor and ceiling": Fault(
        PowerSequences, "_follow", a_power_more, "limit-has-a-ceiling", "step-sizes"
    ),
    "a power more, starts": Fault(PowerSequences, "_follow", a_power_more, "time-goes-as-power", "starts"),
    "the rival without S": Fault(PowerSequences, "_follow", without_strength, "rival-follows-law", "step-sizes"),
    "another weight": Fault(PowerSequences, "_add", of_another_weight, "weighted-limit", "step-sizes"),
    "another weight, starts": Fault(PowerSequences, "_add", of_another_weight, "weighted-goes-as-power", "starts"),
    "steps that are not weighted by x": Fault(
        PowerSequences, "_add", an_area_without_x, "sum-is-half-the-square", "starts"
    ),
    "a limit that is a per cent too small": Fault(
        judge.theory, "sum_limit", lambda *numbers: 0.99 * limit(*numbers), "error-is-first-order", "step-sizes"
    ),
    "the lost factor": Fault(
        judge.theory,
        "weighted_lower_bound",
        lambda *numbers, mended: printed(*numbers[:5], 0.0),
        "weighted-lower-bound-mended",
        "steep",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    fault = FAULTS[name]
    claim = healthy()[fault.claim, fault.arm]
    assert claim.expected
    assert claim.verdict == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert judged({**runs(), fault.arm: train(arms()[fault.arm])})[fault.claim, fault.arm].verdict != "holds"


def test_blocks_are_no_part_of_the_result(monkeypatch):
    """The draws of a block have one address, so that blocks of another length draw other numbers of the same law."""
    monkeypatch.setattr(power_method, "BLOCK", 37)
    claims = judged({**runs(), "step-sizes": train(arms()["step-sizes"])})
    for key, claim in claims.items():
        if key[1] == "step-sizes":
            assert claim.verdict == healthy()[key].verdict, key
