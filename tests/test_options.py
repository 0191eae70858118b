"""Checks of options, the errors that they raise, and extras that are not installed."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import jaxtyping
import pytest

from featscope.data import DictionaryData, LinearPrompts, SparseCoding
from featscope.losses import InfoNCE, NonContrastive, NuclearNorm
from featscope.models import AttentionOnly, PowerMethod, PredictionHead, TokenMLP
from featscope.options import ConfigError, MissingExtraError, require, require_extra, require_word
from featscope.training import BiasSchedule, ContrastivePairs, MagnitudePruning, PredictOtherView
from featscope.training.feature_step import FeatureStep, MarginLoss


@dataclass(frozen=True)
class Speed:
    """How fast."""

    value: float = 1.0

    def __post_init__(self) -> None:
        require(self, "value", self.value > 0, "> 0", "Nothing moves.")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1.0, "Speed.value = -1.0 is out of range: allowed is > 0. Nothing moves."),
        (float("inf"), "Speed.value = inf is out of range: allowed is > 0, and finite. Nothing moves."),
        (float("nan"), "Speed.value = nan is out of range: allowed is > 0, and finite. Nothing moves."),
    ],
)
def test_a_refusal_names_class_field_value_range_and_cure(value, said):
    with pytest.raises(ConfigError) as refused:
        Speed(value)
    assert str(refused.value) == said
    assert (refused.value.owner, refused.value.field) == ("Speed", "value")


@pytest.fixture
def _unchecked() -> Iterator[None]:
    """Types are not checked, as in a program that somebody else writes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize(
    ("kind", "field", "value", "allowed"),
    [
        (MagnitudePruning, "granularity", "neurons", "'neuron' or 'entry'"),
        (MagnitudePruning, "gradient", "straight_through", "'theory' or 'straight-through'"),
        (MagnitudePruning, "score", "directions", "'norm' or 'direction'"),
        (BiasSchedule, "stage1_ends", "norms", "'energy' or 'norm'"),
        (ContrastivePairs, "noise", "project", "'dense' or 'projected'"),
        (PredictOtherView, "noise", "project", "'dense' or 'projected'"),
        (FeatureStep, "keep", "nearest", "'all', 'random', 'aligned', 'misaligned' or 'fitting'"),
        (MarginLoss, "kind", "Hinge", "'hinge' or 'logistic'"),
        (InfoNCE, "scale", "Tau", "'tau' or '1'"),
        (NonContrastive, "normalization", "L2", "'batch', 'l2' or 'none'"),
        (NonContrastive, "scale", "square", "'correlation' or 'squared'"),
        (NuclearNorm, "normalize", "row", "'rows', 'none' or 'batch'"),
        (TokenMLP, "attention", "Uniform", "'uniform', 'linear' or 'softmax'"),
        (PredictionHead, "kind", "lin", "'none', 'identity', 'linear' or 'mlp'"),
        (PowerMethod, "strength", "fixed", "'constant' or 'random'"),
        (AttentionOnly, "read", "first", "'last' or 'equals'"),
        (SparseCoding, "dictionary", "QR", "'hadamard', 'qr' or 'canonical'"),
        (LinearPrompts, "inputs", "normal", "'gaussian' or 'diabetes'"),
        (LinearPrompts, "start", "zeros", "'zero' or 'random'"),
        (DictionaryData, "labels", "parities", "'parity', 'interval' or 'hidden'"),
    ],
)
def test_a_word_that_is_none_of_an_option_s_is_refused(kind, field, value, allowed):
    with pytest.raises(ConfigError) as refused:
        kind(**{field: value})
    assert str(refused.value) == f"{kind.__name__}.{field} = {value!r} is out of range: allowed is {allowed}."


@dataclass(frozen=True)
class Pace:
    """How to go."""

    step: Literal["walk", "run"] | None = None
    foot: "Literal['left', 'right']" = "left"

    def __post_init__(self) -> None:
        require_word(self, "step")
        require_word(self, "foot")


def test_words_may_be_left_out_or_have_their_annotation_in_a_string():
    assert Pace("run", "right").step == "run"
    with pytest.raises(ConfigError, match=r"Pace\.step = 'crawl' .* allowed is 'walk', 'run' or None\."):
        Pace("crawl")
    with pytest.raises(ConfigError, match=r"Pace\.foot = 'both' .* allowed is 'left' or 'right'\."):
        Pace(foot="both")


def test_errors_come_out_of_a_worker_as_they_were():
    """With what the command line needs to name the option as it was typed."""
    with pytest.raises(ConfigError) as refused:
        Speed(0.0)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (str(copy), copy.owner, copy.field) == (str(refused.value), "Speed", "value")
    missing = pickle.loads(pickle.dumps(MissingExtraError("a part", "images")))
    assert str(missing) == "a part needs the extra 'images': pip install 'featscope[images]'"
    shipped = str(MissingExtraError("the small model", "retriever"))
    assert (
        shipped == "the small model is a package of its own: pip install ./packages/featscope-retriever in a checkout"
    )


def test_a_wrong_option_is_no_wrong_value():
    """Who catches what a conversion raises must not swallow it."""
    assert not issubclass(ConfigError, ValueError | TypeError | KeyError | OSError)


def test_a_missing_package_names_the_extra():
    with (
        pytest.raises(
            MissingExtraError, match=r"a study needs the extra 'language': pip install 'featscope\[language\]'"
        ),
        require_extra("a study", "language"),
    ):
        import no_such_package  # noqa: F401


def test_what_a_part_of_it_misses_is_said_of_the_whole():
    with (
        pytest.raises(MissingExtraError, match="a study needs the extra 'images'"),
        require_extra("a study", "language"),
    ):
        raise MissingExtraError("a part", "images")


def test_a_missing_part_of_ones_own_is_no_extra():
    with pytest.raises(ModuleNotFoundError, match=r"featscope\.nowhere"), require_extra("a study", "language"):
        import featscope.nowhere  # noqa: F401


def test_other_errors_stay():
    with pytest.raises(ZeroDivisionError), require_extra("a study", "language"):
        1 / 0  # noqa: B018
