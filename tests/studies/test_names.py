"""Names of arms and figures become names of files: nothing else gets through."""

from dataclasses import dataclass, replace

import pytest

from featscope.check import check
from featscope.figures import Curves, Heatmaps, Panel, Scatters
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.studies import Arm
from featscope.studies.icl_flipped_labels import IclFlippedLabels
from swept import Pull

HOSTILE = ["../../evil", "a/b", "..", ".hidden", "nul\0", "", "two words", "line\n", 300 * "x", "-option"]

PANELS = [Panel("", "x", "y", [])]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_file_name_is_refused(name):
    allowed = "is out of range: allowed is 1 to 100 letters, digits, '-', '.', '_', '@', '=' and '+'"
    with pytest.raises(ConfigError) as refused:
        Arm(name, Pull().arm("pulled").recipe, "")
    assert str(refused.value).startswith("Arm.name = ")
    assert allowed in str(refused.value)
    assert len(str(refused.value)) < 400
    for kind, rest in ((Curves, ([],)), (Heatmaps, ({}, "", "", "")), (Scatters, ({}, {}, ()))):
        with pytest.raises(ConfigError, match=rf"{kind.__name__}\.id = .* is out of range"):
            kind(name, "", "", *rest)


@pytest.mark.parametrize("name", ["plain", "Llama-3.1-8B", "bloom_560m", "at-the-last-step", "7b", 100 * "x"])
def test_names_in_use_are_allowed(name):
    assert Arm(name, Pull().arm("pulled").recipe, "").name == Curves(name, "", "", PANELS).id == name


@dataclass(frozen=True)
class Twins(Pull):
    """Two arms of one name, and figures likewise."""

    def arms(self):
        first, *_ = super().arms()
        return [first, first]

    def figures(self, runs):
        return [Curves("one", "", "", PANELS), Curves("one", "", "", PANELS)]


@dataclass(frozen=True)
class TwinFigures(Pull):
    """Two figures of one id."""

    def figures(self, runs):
        return [Curves("one", "", "", PANELS), Curves("one", "", "", PANELS)]


def test_two_of_one_name_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="Arm.name = 'pulled' is that of two arms"):  # noqa: RUF043
        run(Twins(), Settings(replicas=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "two arms are called 'pulled'" in check(Twins()).problems
    assert "two figures have the id 'one'" in check(TwinFigures()).problems


@dataclass(frozen=True)
class Cousins(Pull):
    """Two arms, and two figures, whose names differ by capitals alone."""

    def arms(self):
        first, *_ = super().arms()
        return [first, replace(first, name="Pulled")]

    def figures(self, runs):
        return [Curves("one", "", "", PANELS), Curves("One", "", "", PANELS)]


def test_names_that_differ_by_capitals_alone_are_one_on_some_machines(tmp_path):
    """There the second arm would go on from the checkpoint of the first, and have what that measured."""
    said = "Arm.name = 'Pulled' differs by capitals alone from another arm's, 'pulled': "
    with pytest.raises(ConfigError) as refused:
        run(Cousins(), Settings(replicas=2), tmp_path / "run")
    assert str(refused.value).startswith(said)
    assert not (tmp_path / "run").exists()
    problems = check(Cousins()).problems
    assert any(line.startswith("two arms are called 'pulled' and 'Pulled', which are one") for line in problems)
    assert any(line.startswith("two figures have the id 'one' and 'One', which") for line in problems)


@pytest.mark.parametrize("model", ["..", "/models/two words", "/models/\0"])
def test_models_whose_names_cannot_be_arms_are_refused(model):
    with pytest.raises(ConfigError, match="models = .* is out of range: allowed is names with different last parts"):  # noqa: RUF043
        IclFlippedLabels(models=(model,))


@pytest.mark.parametrize("models", [("one/Small", "other/small"), ("one/model", "other/model")])
def test_models_whose_last_parts_would_be_one_file_are_refused(models):
    with pytest.raises(ConfigError, match="allowed is names with different last parts"):
        IclFlippedLabels(models=models)
    assert IclFlippedLabels(models=("one/small", "other/smaller")).short_names == ["small", "smaller"]
