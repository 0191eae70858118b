"""The tensor power method against a plain loop over the same draws."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featscope.models import PowerMethod
from featscope.models.power_sequences import BLOCK, CAP
from featscope.options import ConfigError
from featscope.streams import Streams

STREAMS = Streams(0, range(3))
METHOD = PowerMethod(
    power=3, weight=1, step_size=0.05, start=0.2, spread=0.5, strongest=1.5, sequences=4, lead=1.02, strength="random"
)


def run(method, steps=12):
    learner = method.build(STREAMS.at("start"))
    with torch.no_grad():
        for step in range(steps):
            learner(STREAMS.at("batch", step))
    return learner


def by_hand(learner, steps):
    """Every attribute of every sequence, from the same draws."""
    names = ("x", "y", "before", "total", "weighted", "area", "factor", "jump", "ratio")
    found = {name: np.zeros((3, 4)) for name in names}
    draws = [STREAMS.at("batch", step) for step in range(steps)]
    normal, uniform = zip(*((d.normal(BLOCK, 4, dtype=torch.float64), d.uniform(BLOCK, 4, dtype=torch.float64))
                            for d in draws), strict=True)  # fmt: skip
    normal, uniform = torch.cat(normal, 1).numpy(), torch.cat(uniform, 1).numpy()
    for r, s in np.ndindex(3, 4):
        x, y = learner.start[r, :, s].tolist()
        of = dict.fromkeys(names, 0.0) | {"before": y, "ratio": 1.0}
        for z, u in zip(normal[r, :, s], uniform[r, :, s], strict=True):
            if x > 1:
                break
            c = np.exp(0.5 * z - 0.125)
            step = 0.05 * c * x**3
            of["total"] += 0.05 * c
            of["weighted"] += 0.05 * c * x
            of["area"] += x * step
            of["factor"], of["jump"] = max(of["factor"], c), max(of["jump"], step)
            of["ratio"] = max(of["ratio"], (x + step) / x)
            of["before"] = y
            x, y = x + step, y + 0.05 * c * 1.5 * (1 - u) * y**3
        of |= {"x": x, "y": y}
        for name in names:
            found[name][r, s] = of[name]
    return found


def test_sequences_and_sums_are_those_of_a_loop():
    learner = run(METHOD)
    assert learner.passed.all()
    expected = by_hand(learner, 12)
    measured = {"x": learner.state[:, 0], "y": learner.state[:, 1]}
    for name, values in expected.items():
        found = measured[name] if name in measured else getattr(learner, name)
        np.testing.assert_allclose(found.detach().numpy(), values, rtol=1e-11, err_msg=name)


def test_leaders_begin_uniformly_and_rivals_as_far_behind_as_the_lead_says():
    x, y = replace(METHOD, sequences=1000).build(STREAMS.at("start")).start.unbind(1)
    assert 0.2 <= x.min() < 0.2005
    assert 0.2495 < x.max() < 0.25
    assert x.mean() == pytest.approx(0.225, abs=2e-3)
    torch.testing.assert_close(x / y, torch.full_like(x, 1.02 * 1.5**0.5))  # power 3: the threshold is a square root
    alike = replace(METHOD, power=1, weight=0, strongest=1.0, lead=1.3).build(STREAMS.at("start")).start
    torch.testing.assert_close(alike[:, 0] / alike[:, 1], torch.full_like(alike[:, 0], 1.3))


def test_a_rival_that_escapes_is_kept_at_the_cap():
    learner = run(replace(METHOD, strength="constant", strongest=50.0, lead=0.3), steps=1)
    assert not learner.passed.any()
    assert (learner.state[:, 1] == CAP).all()
    assert torch.isfinite(learner.before).all()


@pytest.mark.parametrize("strength", ["constant", "random"])
def test_constant_rivals_have_the_largest_factor(strength):
    learner = run(replace(METHOD, strength=strength, spread=0.0), steps=1)
    y_0 = learner.start[:, 1]
    path, push = y_0.clone(), 0.05 * 1.5
    for _ in range(BLOCK):
        path = path + push * path**3
    agree = torch.isclose(path, learner.state[:, 1]).all()
    assert bool(agree) == (strength == "constant")


def test_a_rival_needs_a_leader():
    with pytest.raises(ConfigError, match=r"PowerMethod.lead = 0.0 is out of range: allowed is > 0"):
        PowerMethod(lead=0.0)
