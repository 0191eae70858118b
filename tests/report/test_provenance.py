"""How a run is told apart and run again: the command, changed options, what sets arms apart."""

import shlex
from dataclasses import dataclass, replace

import pytest

from featscope.commands.run import study_options
from featscope.registry import find
from featscope.report.arm_table import arm_tables
from featscope.report.provenance import changed_options, command, facts
from featscope.studies import Arm, Axis
from featscope.studies.scaling import ScalingStudy
from featscope.studies.sweep import Sweep

COMMANDS = {
    "decoupling": "--data.features 12 --objective.loss.temperature 0.5 --steps 20",
    "pruning": "--pruning.ratio 0.25 --bias.first 0.1",
    "prediction-head-images": "--data shapes --train 40",
    "gemfilter": "--lengths 112 128 --prompts 2 --haystack built-in",
    "longtail-images": "--data shapes --batch 8",
    "needle": "--needle 'It is Ann.' --question 'Who is it?' --answer Ann --lengths 96 160",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_of_a_run_gives_the_same_study_again(name: str) -> None:
    words = shlex.split(COMMANDS[name])
    try:
        chosen, _, _ = study_options("run", name, words)
    except SystemExit:
        pytest.fail(f"{name} does not take {words}")
    plan = {"seed": 3, "replicas": 2, "device": "cpu"}
    said = command(chosen.study, plan)
    start = f"featscope run {name} --seed 3 --replicas 2 --device cpu"
    assert said.startswith(start)
    again, _, _ = study_options("run", name, shlex.split(said)[3:])
    assert again.study == chosen.study
    assert (again.settings.seed, again.settings.replicas) == (3, 2)


def test_a_part_of_another_kind_comes_last_with_its_own_options() -> None:
    words = ["--steps", "20", "optimizer:torch-optimizer", "--optimizer.name", "AdamW", "--optimizer.lr", "0.002"]
    chosen, _, _ = study_options("run", "decoupling", words)
    said = command(chosen.study, {"seed": 0, "replicas": 2, "device": "cpu"})
    again, _, _ = study_options("run", "decoupling", shlex.split(said)[3:])
    assert again.study == chosen.study
    assert said.index("--steps 20") < said.index("optimizer:torch-optimizer") < said.index("--optimizer.lr")


def test_nothing_is_changed_at_defaults_and_a_sweep_names_its_studys_options() -> None:
    _, kind = find("imbalance")
    assert changed_options(kind()) == {}
    sweep = Sweep(replace(kind(), curve_steps=20), (Axis("data.eps_min", (0.1, 0.2)),))
    assert changed_options(sweep) == {"--curve-steps": "20"}
    assert command(sweep, {"seed": 0, "replicas": 1, "device": "cpu"}).startswith(
        "featscope sweep imbalance --axis data.eps_min=0.1,0.2 --seed 0"
    )


def test_a_ladder_of_sizes_that_the_defaults_do_not_allow_says_what_was_changed() -> None:
    chosen, _, _ = study_options("run", "decoupling", ["--data.dictionary", "qr"])
    ladder = ScalingStudy(chosen.study, sizes=(6.0, 12.0, 24.0, 48.0, 96.0, 192.0))
    assert changed_options(ladder) == {"--data.dictionary": "qr"}


def test_the_study_of_another_package_is_named_with_its_version_and_revision() -> None:
    _, kind = find("imbalance")
    about = {"packages": {"featscope": "1", "torch": "2"}, "python": "3", "processor": "p", "cores": 2}
    about |= {"platform": "Linux", "device": "cpu", "git_revision": "abc"}
    assert "Study" not in facts(kind(), about)
    about["study"] = {"package": "theirs", "version": "7.1", "revision": "def"}
    found = facts(kind(), about | {"seconds": 3.2})
    assert found["Study"] == f"{kind.__qualname__} of theirs 7.1, revision def"
    assert found["FeatScope"] == "1, revision abc"
    assert found["Took"].startswith("3 s")


def test_arms_are_told_apart_by_what_differs_from_the_first_of_their_kind() -> None:
    _, kind = find("decoupling")
    (table,) = arm_tables(list(kind().arms()))
    rows = {row.name: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
    assert set(rows["augmented"].values()) == {""}
    assert rows["plain"]["view"] == "SameSample"
    assert rows["plain"]["bias"] == "none"
    assert rows["tau-2"]["loss"] == "temperature 2"
    assert [row.name for row in table.rows if row.role == "control"] == ["canonical"]
    assert list(table.same) == ["optimizer"]
    assert not {"ledger", "all dead"} & set(table.columns)  # rules that only look


@dataclass(frozen=True)
class Step:
    rate: float
    sizes: tuple[int, ...] = (1, 2, 3, 4)


@dataclass(frozen=True)
class Recipe:
    step: Step
    ratio: float = 1 / 3
    batch: int = 100_000


def test_arms_that_differ_beyond_three_digits_are_told_apart() -> None:
    recipes = [
        Recipe(Step(0.1)),
        Recipe(Step(0.1001)),
        Recipe(Step(0.2), batch=100_001),
        Recipe(Step(0.1, (1, 3, 2, 4))),
    ]
    (table,) = arm_tables([Arm(str(place), recipe, "") for place, recipe in enumerate(recipes)])
    assert (table.columns, table.base) == (["batch", "step"], ["100000", "Step: rate 0.1, sizes 1, 2, 3, 4"])
    assert [list(row.cells) for row in table.rows] == [
        ["", ""],
        ["", "rate 0.1001"],
        ["100001", "rate 0.2"],
        ["", "sizes 1, 3, 2, 4"],
    ]
    assert table.same == {"ratio": "0.333"}


def test_arms_of_other_recipes_get_tables_of_their_own_and_axes_are_told() -> None:
    _, kind = find("prediction-head")
    flows, *others = arm_tables(list(kind().arms()))
    assert others
    sizes = next(row for row in flows.rows if row.name == "sizes")
    assert sizes.cells[flows.columns.index("data")] == "input dim 32 to 10000, 6 values; weak 1 to 2, 2 values"
