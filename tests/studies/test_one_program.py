"""Every float option of a study varies within one program of a sweep, on each arm that has replicas side by side."""

import pytest
import torch
from one_step import NAMES

from featscope.axes import numeric_options, points, with_options
from featscope.data import ParityPrompts
from featscope.options import ConfigError
from featscope.registry import find
from featscope.streams import Streams
from featscope.training.stack import apart, stack, together

SHOWN = "changes what may not differ between replicas (_every_token)"
NETWORKS, HAND_SET = (f"changes what may not differ between replicas ({name})" for name in ("networks", "hand_set"))
BY_SIZE = "is of a network with tensors that have no replica axis"
LONGER = "changes how long it goes on"
APART = {
    # At exactly 1, its default, all tokens show what is active, and it is not drawn which do.
    ("imbalance", "data.token_activity", None): SHOWN,
    # Networks are set by hand, to what theory says of γ, and nothing is trained.
    **{("icl-parity", "gamma", f"d={size}"): NETWORKS for size in ("4-k=2", "8-k=2", "8-k=4", "16-k=4")},
    ("icl-parity", "gamma", "half-the-heads"): NETWORKS,
    ("icl-parity", "gamma", "examples"): HAND_SET,
    ("icl-parity", "gamma", "flipped-labels"): HAND_SET,
    # Networks of all sizes of a replica are side by side.
    **{("input-structure", option, "sizes"): BY_SIZE for option in ("weight", "sharpness")},
    # They go on for a time, and take the more steps for it the shorter these are.
    **{("decoupling", "optimizer.lr", arm): LONGER for arm in ("smaller", "horizon")},
}
"""Study, option and arm, or None for all but one, with what is said of it."""
IN_ALL_BUT = {("imbalance", "data.token_activity"): "token-masking"}
"""The arm where it is below 1 already."""
ONE_VALUE = {
    ("pruning", "data.token_activity"),
    *(("prediction-head", option) for option in ("objective.loss.eps", "optimizer.weight_decay")),
}
"""Options of which the study takes the default alone."""


def moved(study, option):
    """The study with another value of an option; None if it takes no other."""
    value = numeric_options(study)[option]
    for other in (0.9 * value, 1.1 * value, value + 0.01):
        if other != value:
            try:
                found = with_options(study, {option: other})
                found.arms()
            except ConfigError:
                continue
            return found
    return None


def built(recipe, replicas=1):
    return recipe.build(Streams(0, range(replicas)))


@pytest.mark.parametrize("name", NAMES)
def test_points_that_differ_in_a_float_run_as_one_program(name):
    study = find(name)[1]().smallest()
    options = [option for option, value in numeric_options(study).items() if isinstance(value, float)]
    first, said = {}, {}
    for option in options:
        other = moved(study, option)
        assert (other is None) == ((name, option) in ONE_VALUE)
        for arm in study.arms() if other else ():
            recipe, there = arm.recipe, other.arm(arm.name).recipe
            if not recipe.replica_axis or recipe == there:
                continue
            if arm.name not in first:
                first[arm.name] = built(recipe)
            one, two = first[arm.name], built(there)
            if (recipe.steps, recipe.probe_every) != (there.steps, there.probe_every):
                said[name, option, arm.name] = LONGER
            elif len(together([one, two], [0, 0])) > 1:
                every = IN_ALL_BUT.get((name, option), arm.name) != arm.name
                said[name, option, None if every else arm.name] = apart(one, two)
    assert said == {key: words for key, words in APART.items() if key[0] == name}


@pytest.mark.parametrize(
    ("name", "arm", "option", "value", "steps"),
    [
        ("grokking", "k=2", "lr", 1e-3, 3),
        ("grokking", "k=2", "decay", 90.0, 3),
        ("attention-circuits", "three-inputs", "lr", 1e-3, 3),
        ("fourier-circuits", "weight-decay", "decay", 90.0, 3),
        ("input-structure", "white", "weight", 0.1, 2),
        ("input-structure", "white", "sharpness", 9.0, 2),
        ("learned-filters", "digits", "spread", 0.2, 1),
        ("learned-filters", "digits", "rate", 0.01, 1),
        ("fixed-features", "one-step", "learning_rate", 0.1, 3),
        ("universality", "finetuned", "gamma", 0.01, 20),
        ("icl-parity", "search-d=4", "gamma", 0.2, 3),
        ("icl-parity", "trained", "gamma", 0.2, 3),
    ],
)
def test_a_point_of_a_program_is_what_a_run_of_its_own_is(name, arm, option, value, steps):
    """But for rounding."""
    study = find(name)[1]().smallest()
    arms = [one.arm(arm) for one in (study, with_options(study, {option: value}))]
    recipes = [next(points(one.recipe, one.over))[1] for one in arms]
    parts, alone = ([built(recipe, 2) for recipe in recipes] for _ in range(2))
    assert together(parts, [0, 0]) == [[0, 1]]
    for one in (stack(parts), *alone):
        for step in range(steps):
            one.advance(step)
    here, there = ([one.kept() for one in ones] for ones in (parts, alone))
    for own, single in zip(here, there, strict=True):
        for key, kept in single.items():
            torch.testing.assert_close(own[key], kept, rtol=1e-3, atol=1e-5, equal_nan=True)
    assert any(not torch.allclose(here[0][key], one, rtol=0.01, atol=1e-4) for key, one in there[1].items())


def test_prompts_of_a_program_are_those_of_its_parts():
    kinds = ((0.02, 0.4, 0.1), (0.2, 0.1, 0.3))
    options = [ParityPrompts(gamma=gamma, others=others, flipped=flipped) for gamma, others, flipped in kinds]
    whole, *parts = (
        one.build(Streams(0, replicas).at("start"))
        for one, replicas in zip((ParityPrompts(), *options), ([0, 1, 0, 1], [0, 1], [0, 1]), strict=True)
    )
    for name in ("gamma", "others", "flipped"):
        numbers = torch.tensor([getattr(one, name) for one in options]).repeat_interleave(2)
        object.__setattr__(whole.options, name, numbers)
    found = whole.sample(Streams(0, [0, 1, 0, 1]).at("batch"), 20)
    expected = [part.sample(Streams(0, [0, 1]).at("batch"), 20) for part in parts]
    for one, *two in zip(found, *expected, strict=True):
        assert torch.equal(one, torch.cat(two))
