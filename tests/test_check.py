"""What a check of a study finds, and how it names it."""

import re
from dataclasses import dataclass, field, replace

import jaxtyping
import numpy as np
import pytest
import torch

from featscope.check import check
from featscope.claims import POSITIVE, bound, identity
from featscope.figures import Bars, Figure
from featscope.options import ConfigError
from featscope.studies import Arm, Axis, Story, last
from featscope.studies.base import require_different_names
from featscope.training import SGD, Measurement
from swept import Noisy, Pull


@dataclass(frozen=True)
class Sound(Pull):
    """A study in which nothing is wrong, with a claim on an arm of its own."""

    built: list = field(default_factory=list, compare=False)

    def smallest(self):
        return replace(self, width=1)

    def watch(self, experiment):
        self.built.append(experiment.learner.value.shape)
        return super().watch(experiment)

    @bound("", on=("pulled", "other"), at_most=1.0, range=POSITIVE)
    def near(self, run):
        """It is near. Measured: distance."""
        return last(run, run.distance)

    @identity("", on="pulled", equals=0.0, within=0.1)
    def right(self, run):
        """It is right. Measured: error."""
        return run["error"]


def problems(study) -> list[str]:
    return list(check(study).problems)


def test_a_sound_study_takes_one_step_of_every_arm_at_its_smallest_size():
    study = Sound(steps=10**9)
    found = check(study)
    assert (found.arms, found.claims, found.problems) == (2, 3, [])
    assert found.figures == 2  # over steps, and the identities that the frame adds
    assert found.seconds < 60
    assert study.built[:2] == [(2, 1)] * 2  # before and after the step, two replicas of the smallest width
    assert study.built[2:4] == [(1, 1)] * 2  # and one of them alone
    assert len(study.built) == 8  # for two arms


class MisspeltAttribute(Sound):
    """Misspells a series."""

    @bound("", on="pulled", at_most=1.0)
    def near(self, run):
        """Near."""
        return run.distanc


class MisspeltKey(Sound):
    """Misspells a series."""

    @bound("", on="pulled", at_most=1.0)
    def near(self, run):
        """Near."""
        return run["distanc"]


@pytest.mark.parametrize("kind", [MisspeltAttribute, MisspeltKey])
def test_a_misspelt_series_is_named_with_what_was_meant(kind):
    assert problems(kind()) == [
        "the claim 'near' on 'pulled': 'distanc' is measured on no arm: did you mean 'distance'?"
    ]


class Elsewhere(Sound):
    """Asks for what is measured at the end of the other arm only."""

    @bound("", on="other", at_most=1.0)
    def near(self, run):
        """Near."""
        return run.error


def test_a_series_that_another_arm_has_is_named_with_the_arm():
    assert problems(Elsewhere()) == ["the claim 'near' on 'other': 'error' is not measured on the arm 'other'"]


class UnknownArm(Sound):
    """A claim on an arm that is not there."""

    @bound("", on="puled", not_on="nothing", at_most=1.0)
    def near(self, run):
        """Near."""
        return run.distance


def test_an_unknown_arm_is_named_with_the_nearest():
    assert problems(UnknownArm()) == [
        "the claim 'near' names the arm 'puled': did you mean 'pulled'?",
        "the claim 'near' names the arm 'nothing': allowed is one of pulled, other",
    ]


class AmongRuns(Sound):
    """Looks for an arm that is not there among the runs."""

    @bound("", on="pulled", at_most=1.0)
    def near(self, runs):
        """Near."""
        return runs["othr"].distance


def test_an_unknown_arm_among_the_runs_is_named():
    assert problems(AmongRuns()) == ["the claim 'near' on 'pulled': 'othr' is no arm: did you mean 'other'?"]


class OverNothing(Sound):
    """An axis over an option that the recipe does not have."""

    option = "optimizer.lrr"

    def arms(self):
        pulled, other = super().arms()
        return [replace(pulled, over=(Axis(self.option, (0.1, 0.2)),)), other]


class OverWords(OverNothing):
    """And one over the name of a part."""

    option = "optimizer"


def test_an_unknown_option_of_an_axis_is_named_with_the_nearest():
    found = check(OverNothing())
    assert found.problems == [
        "the arm 'pulled' is over 'optimizer.lrr', which its recipe does not have: did you mean 'optimizer.lr'?"
    ]
    assert (found.arms, found.claims) == (1, 0)
    (line,) = problems(OverWords())
    assert line.startswith("the arm 'pulled' is over 'optimizer', which its recipe does not have")


class OutOfRange(Sound):
    """Measures what its range says cannot be."""

    @bound("", on=("pulled", "other"), at_most=0.4, range=(0.0, 0.5), law="exact")
    def near(self, run):
        """Near."""
        return 7.0 + 0 * run.error if "error" in run else -1.0


def test_a_measurement_out_of_its_range_is_named():
    assert problems(OutOfRange()) == [
        "the claim 'near' on 'pulled' measured 7, outside of its range [0, 0.5]",
        "the claim 'near' on 'other' measured -1, outside of its range [0, 0.5]",
    ]


class JustInRange(Sound):
    """Measures a share that rounding pushes over 1, and one that is missing."""

    @bound("", on=("pulled", "other"), at_most=0.9, range=(0.0, 1.0), law="exact")
    def near(self, arm, run):
        """Near."""
        return 1.0 + 1e-9 if arm == "pulled" else float("nan")


def test_rounding_and_missing_values_are_in_range():
    assert problems(JustInRange()) == []


class UnknownClaim(Sound):
    """Draws a claim that nobody makes."""

    def figures(self, runs):
        yield Figure("one", "", "", claims=("near", "neer"))


def test_a_figure_that_names_an_unknown_claim_is_named():
    assert problems(UnknownClaim()) == ["the figure 'one' shows 'neer', which is no claim: did you mean 'near'?"]


class WrongHeadlines(Sound):
    """Puts a claim that nobody makes on the first screen."""

    def story(self, runs, claims):
        return Story("Near.", headlines={"near@pulled": "", "neer@other": "", "right": ""})


def test_headlines_that_name_an_unknown_claim_are_named():
    assert problems(WrongHeadlines()) == ["the story's headlines have 'neer', which is no claim: did you mean 'near'?"]


class WrongCorrection(Sound):
    """Stands in the place of a claim that nobody makes."""

    @bound("", on="pulled", at_most=1.0, corrects=("near", "rigth"))
    def mended(self, run):
        """It is mended."""
        return run.error


def test_a_correction_of_an_unknown_claim_is_named():
    assert problems(WrongCorrection()) == [
        "the claim 'mended' corrects 'rigth', which is no claim: did you mean 'right'?"
    ]


class BadFigures(Sound):
    """Draws a series that is not there."""

    def figures(self, runs):
        yield runs["pulled"].distanse


class BadStory(Sound):
    """Cannot say what was found."""

    def story(self, runs, claims):
        return f"{1 / 0}"


def test_what_goes_wrong_with_figures_and_story_is_said():
    assert problems(BadFigures()) == ["figures or story: 'distanse' is measured on no arm: did you mean 'distance'?"]
    assert problems(BadStory())[0].startswith("figures or story: ZeroDivisionError: division by zero")


class Twins(Sound):
    """Two arms of one name, and one with a long label."""

    def arms(self):
        pulled, _ = super().arms()
        return [pulled, replace(pulled, label="far too many words here")]


class OneLabel(Sound):
    """Two arms of one label: figures have to call them by name."""

    def arms(self):
        return [replace(arm, label="near it") for arm in super().arms()]


class Nameless(Sound):
    """A claim without a prediction."""

    @bound("", on="pulled", relation="<=")
    def near(self, run):
        """Near."""
        return run.error


def test_names_and_labels_of_arms_are_looked_at():
    found = problems(Twins())
    assert "two arms are called 'pulled'" in found
    assert any("is labelled 'far too many words here': allowed are 1 to 4 words" in line for line in found)


class Unlabelled(Sound):
    """Names of arms that are no words."""

    def arms(self):
        pulled, other = super().arms()
        named = [replace(pulled, name=name, label="") for name in ("pulled-hard", "k=2")]
        return [pulled, other, *named, replace(pulled, name="pulled-twice", label="pulled twice")]


def test_an_arm_whose_name_is_no_word_needs_a_label():
    hyphen, equal = problems(Unlabelled())
    assert hyphen == "the arm 'pulled-hard' has no label, and figures would show its name: give it 1 to 4 words"
    assert equal.startswith("the arm 'k=2' has no label")


def test_two_arms_of_one_label_are_told():
    assert problems(OneLabel()) == ["two arms are labelled 'near it'"]


def test_a_claim_that_says_no_prediction_is_named():
    (line,) = problems(Nameless())
    assert line.startswith("the claim 'near' on 'pulled': TypeError: near: neither its decorator nor its measurement")


class Broken(Sound):
    """Its second arm cannot be built, and its first cannot be measured."""

    def arms(self):
        pulled, other = super().arms()
        return [pulled, replace(other, stop_at="nothing")]


def test_an_arm_that_cannot_take_a_step_is_named_and_nothing_is_judged():
    found = check(Broken())
    assert (found.arms, found.claims, found.figures) == (1, 0, 0)
    (line,) = found.problems
    assert line.startswith("the arm 'other' cannot take a step: KeyError: 'nothing'")


def test_divergence_in_the_one_step_is_said():
    (line, *_) = problems(Sound(data=Noisy(float("inf")), optimizer=SGD(1.0, 0.0)))
    assert "cannot take a step: DivergedError: the loss of replica 0 of the arm pulled is not finite" in line


class Wrongly(Sound):
    """Measures with an axis that has no name."""

    def watch(self, experiment):
        return {"distance": Measurement(experiment.learner.value)}


def test_what_cannot_be_recorded_is_said():
    (line, *_) = problems(Wrongly())
    assert "'distance' has the shape [2, 1]: expected [replica] and an axis for each name in its" in line


def test_arms_of_a_sweep_are_over_options_of_the_study():
    from featscope.studies.sweep import Sweep

    assert problems(Sweep(Pull(), (Axis("data.noise", (0.1, 0.2)),))) == []


def test_an_arm_needs_no_more_than_a_recipe():
    class Plain(Pull):
        """Without anything of its own."""

        def arms(self):
            return [Arm("plain", self.recipe, "")]

    assert problems(Plain()) == []


class Scattered(Sound):
    """Every arm measures with chance from torch's own generator."""

    def watch(self, experiment):
        return super().watch(experiment) | {"chance": Measurement(torch.rand(2))}


class Spilled(Sound):
    """Draws from torch's own generator, and uses nothing of it, as layers do before they are given their weights."""

    def watch(self, experiment):
        torch.rand(3)
        return super().watch(experiment)


def test_chance_from_a_global_generator_is_said_once_for_all_arms():
    (line,) = problems(Scattered())
    assert line.startswith("the arms 'pulled' and 'other' cannot be repeated: chance comes from a global generator")
    assert problems(Spilled()) == []


class Slipped(Sound):
    """Its measuring has a bug, on every arm."""

    def watch(self, experiment):
        return {"distance": Measurement(experiment.learner.value.no_such_thing)}


def test_an_error_of_the_study_is_said_once_with_the_line_that_raised_it():
    (line,) = problems(Slipped())
    assert line.startswith("the arms 'pulled' and 'other' cannot take a step: AttributeError:")
    assert re.search(r"\(test_check\.py, line \d+, in watch\)$", line)


class Flat(Sound):
    """A bar a group is wanted, and one is given."""

    def figures(self, runs):
        one = np.array(1.0)
        yield Bars("flat", "Flat", "", ["a", "b"], {"pulled": (one, one, one)}, "y")


def test_values_that_do_not_fit_a_figure_are_named():
    (line,) = problems(Flat())
    assert "ValueError: the height of the bars 'pulled' of 'flat' has shape []: expected [2], a value for each" in line


@dataclass(frozen=True)
class Shared(Noisy):
    """What is drawn for replica 0 is given to all."""

    def build(self, draws):
        source = super().build(draws)
        sample = source.sample
        source.sample = lambda draws, count: sample(draws, count)[:1].expand(draws.replicas, -1)
        return source


class EndsEarly(Sound):
    """Each arm may stop early, so that trials train its replicas in two groups."""

    def arms(self):
        return [replace(arm, stop_at="near") for arm in super().arms()]


@pytest.mark.parametrize("kind", [Sound, EndsEarly])
def test_replicas_that_are_not_alone_are_named(kind):
    (line,) = problems(kind(data=Shared(0.5)))
    assert line.startswith("the arms 'pulled' and 'other': replica 1 has another")


@dataclass(frozen=True)
class Fixed(Noisy):
    """All replicas have the target of the first, which nothing shows that is measured."""

    def build(self, draws):
        source = super().build(draws)
        source.register_buffer("hidden", draws.normal(2)[:1].expand(draws.replicas, 2).clone())
        return source


@pytest.mark.parametrize("kind", [Sound, EndsEarly])
def test_a_state_that_replicas_share_is_named_where_no_measurement_shows_it(kind):
    (line,) = problems(kind(data=Fixed(0.5)))
    assert line.startswith("the arms 'pulled' and 'other': replica 1 has another 'source.hidden' alone than beside")


class Stranger(Sound):
    """Draws what is no figure, has an arm of no role, and watches what is measured anyway."""

    def figures(self, runs):
        yield "a picture"


def test_what_is_no_figure_is_named():
    (line,) = problems(Stranger())
    assert line.startswith("figures or story: TypeError: figures gives 'a picture': expected descriptions from")


class Actor(Sound):
    """An arm of a role that there is not."""

    def arms(self):
        pulled, other = super().arms()
        return [pulled, replace(other, role="contol")]


def test_a_role_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as it comes without the type checks of tests
    with pytest.raises(ConfigError, match=r"Arm\.role = 'contol' is out of range: allowed is 'arm', 'control' or 'ref"):
        Actor().arms()


def test_what_is_no_arm_is_refused_and_so_is_what_is_no_recipe(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ConfigError, match=r"Arm\.recipe = None is out of range: allowed is a dataclass of options"):
        Arm("a", None, "nothing is built")
    with pytest.raises(ConfigError, match="gave 'a': allowed are Arms"):
        require_different_names(["a"])


class Twice(Sound):
    """Watches what the experiment measures of itself."""

    def watch(self, experiment):
        return super().watch(experiment) | {"loss": Measurement(torch.zeros(2))}


def test_a_name_that_the_experiment_has_taken_is_refused():
    (line,) = problems(Twice())
    assert "'loss' is what the experiment measures of itself: watch another name" in line


class Series(Sound):
    """A claim about a whole series."""

    @bound("", on="pulled", at_most=1.0)
    def near(self, run):
        """Near."""
        return run.distance


def test_a_claim_about_a_series_is_told_to_take_one_value_a_replica():
    (line, *_) = problems(Series())
    assert "near measured something for each step: expected one value a replica; take the last look" in line


class Bare(Sound):
    """Measures without saying what."""

    def watch(self, experiment):
        return {"distance": experiment.learner.value.mean(-1)}


def test_a_bare_tensor_is_told_to_be_a_measurement():
    (line,) = problems(Bare())
    assert "TypeError: 'distance' is a Tensor: expected a Measurement(values, about, dims)" in line


class Armless(Sound):
    """Has no arms."""

    def arms(self):
        return []


def test_a_study_without_arms_is_told():
    assert "the study has no arms: `arms` gives none" in problems(Armless())


class Pushing(Sound):
    """Its looking moves what it looks at."""

    def watch(self, experiment):
        with torch.no_grad():
            experiment.learner.value /= 2
        return super().watch(experiment)


def pushing_at_the_end(experiment):
    experiment.source.noise += 1
    return {}


class PushingLate(Sound):
    """What one arm measures at its end moves its data."""

    def arms(self):
        pulled, other = super().arms()
        return [pulled, replace(other, at_end=(pushing_at_the_end,))]


def test_looking_that_changes_what_is_looked_at_is_told():
    (line,) = problems(Pushing())
    assert line.startswith("the arms 'pulled' and 'other': watch changes 'learner.value' of the experiment, so that")
    (line,) = problems(PushingLate())
    assert line.startswith("the arm 'other': pushing_at_the_end changes 'source.noise' of the experiment")


class Together(Sound):
    """Watches something of all replicas together."""

    def watch(self, experiment):
        mean = experiment.learner.value.mean()
        return super().watch(experiment) | {
            "together": Measurement(self.of(mean).expand(len(experiment.learner.value)))
        }


class Small(Together):
    """Which is small."""

    def of(self, mean):
        return 1e-6 * mean


class Whole(Together):
    """Which is a whole number."""

    def of(self, mean):
        return (1000 * mean).round().long()


@pytest.mark.parametrize("kind", [Small, Whole])
def test_replicas_that_meet_in_small_or_whole_numbers_are_named(kind):
    (line,) = problems(kind())
    assert line.startswith(
        "the arms 'pulled' and 'other': replica 1 has another 'together' alone than beside replica 0"
    )


class Rounded(Sound):
    """Watches what rounding leaves of a number around 1, which is another alone."""

    def watch(self, experiment):
        value = experiment.learner.value
        return super().watch(experiment) | {"left": Measurement(1e-10 * value.mean().double().expand(len(value)))}


def test_rounding_is_no_other_number():
    assert problems(Rounded()) == []
