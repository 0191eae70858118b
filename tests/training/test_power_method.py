"""The tensor power method against a plain loop over the same draws."""

import numpy as np
import pytest
import torch

from featscope.streams import Streams
from featscope.training.power_method import BLOCK, CAP, PowerMethod, PowerSequences
from featscope.training.stack import stack, together

NUMBERS = {"step_size": 0.05, "level": 1.0, "scale": 1.0, "spread": 0.5, "strongest": 1.5}


def build(replicas=range(3), strength="random", power=3, weight=1, **numbers):
    streams = Streams(0, replicas)
    leader = 0.2 + 0.1 * streams.at("start").uniform(4, dtype=torch.float64)
    return PowerMethod(PowerSequences(leader, 0.8 * leader, power, weight, strength, **{**NUMBERS, **numbers}), streams)


def run(experiment, steps=12):
    for step in range(steps):
        experiment.advance(step)
    return experiment.learner


def by_hand(learner, streams, steps):
    """Every attribute of every sequence, from the draws of ``streams``."""
    names = ("x", "y", "before", "total", "weighted", "area", "factor", "jump", "ratio")
    found = {name: np.zeros((3, 4)) for name in names}
    draws = [streams.at("batch", step) for step in range(steps)]
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
    experiment = build()
    learner = run(experiment)
    assert learner.passed.all()
    expected = by_hand(learner, experiment.streams, 12)
    measured = {"x": learner.state[:, 0], "y": learner.state[:, 1]}
    for name, values in expected.items():
        found = measured[name] if name in measured else getattr(learner, name)
        np.testing.assert_allclose(found.detach().numpy(), values, rtol=1e-11, err_msg=name)


def test_what_has_passed_stands_still_and_the_event_says_when():
    experiment = build()
    learner = run(experiment)
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    when = experiment.events()["passed"].clone()
    assert ((when > 1) & (when <= 12)).all()
    experiment.advance(12)
    for name, tensor in learner.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(experiment.events()["passed"], when)


def test_a_rival_that_escapes_is_kept_at_the_cap():
    learner = run(build(strength="constant", strongest=50.0), steps=1)
    assert not learner.passed.any()
    assert (learner.state[:, 1] == CAP).all()
    assert torch.isfinite(learner.before).all()


def test_replicas_and_step_sizes_train_together_as_they_do_alone():
    parts = [build(step_size=size) for size in (0.02, 0.05)]
    assert together(parts, [0, 0]) == [[0, 1]]
    run(stack(parts))
    for size, part in zip((0.02, 0.05), parts, strict=True):
        torch.testing.assert_close(part.learner.total, run(build(step_size=size)).total)
    alone = run(build(replicas=range(2, 3)))
    torch.testing.assert_close(alone.total, parts[1].learner.total[2:])


@pytest.mark.parametrize("strength", ["constant", "random"])
def test_constant_rivals_have_the_largest_factor(strength):
    learner = run(build(strength=strength, spread=0.0), steps=1)
    y_0 = learner.start[:, 1]
    path, push = y_0.clone(), 0.05 * 1.5
    for _ in range(BLOCK):
        path = path + push * path**3
    agree = torch.isclose(path, learner.state[:, 1]).all()
    assert bool(agree) == (strength == "constant")
