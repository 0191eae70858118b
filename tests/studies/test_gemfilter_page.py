"""What the page of GemFilter says and draws, of scores and costs set by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from judged_by_hand import judged

from featscope.language.methods import METHODS
from featscope.studies.gemfilter import GemFilterStudy
from featscope.studies.gemfilter.cost import COUNTED, NEW, NEW_TIMED, TIMED, WEIGHED

STUDY = GemFilterStudy(lengths=(112, 160, 512), trained=160, prompts=2, keeps=(32, 64), cost_lengths=(512, 1024))
SCORES = {"full": 0.9, "gemfilter": 0.8, "question-kept": 0.85, "snapkv": 0.7, "h2o": 0.6}
SCORES |= {"one-run": 0.75, "middle-row": 0.3, "largest-row": 0.2}
COVERED = (0.05, 0.1, 0.2, 0.95, 0.5, 0.4)
MIB = 2**20
FINDS, NO_WORSE = "early-layer-finds-needle@retrieval", "gemfilter-is-no-worse@retrieval"


def prompts(covered: tuple[float, ...], **scores: float) -> xr.Dataset:
    """Measurements of prompts: 0.01 less in one length of those trained on than in the other, a tenth beyond."""
    found = SCORES | {name.replace("_", "-"): score for name, score in scores.items()}
    values = {
        "score": ("method", [found[name] for name in METHODS]),
        "exact": ("method", [found[name] / 2 for name in METHODS]),
        "score_of_layer": ("layer", 0.3 + np.arange(6) / 10),
        "score_of_keep": ("keep", [0.4, 0.6]),
        "covered": ("layer", covered),
        "last_kept": ("layer", 0.1 + np.arange(6) / 10),
    }

    def over_lengths(of: Any) -> np.ndarray:
        known, noise = np.asarray(of), np.array([-0.01, 0.01])[:, None, None]
        return np.stack([known - 0.005, known + 0.005, known / 10]) + noise

    return xr.Dataset({name: (("replica", "length", axis), over_lengths(of)) for name, (axis, of) in values.items()})


def costs() -> xr.Dataset:
    """Costs of two lengths; of full attention 8, of SnapKV 5, of the first pass 2, of the choice 1, twice for 1024."""
    units = {"full": 8.0, "snapkv": 5.0, "first": 2.0, "choice": 1.0, "gemfilter": 3.0}
    of = {f"{name}_seconds": units[name] for name in TIMED}
    of |= {f"{name}_operations": units[name] ** 2 for name in COUNTED}
    of |= {f"{name}_bytes": MIB * units[name] for name in WEIGHED}
    of |= {f"{name}_decoding_seconds": units[name] / 1000 for name in NEW_TIMED}
    of |= {f"{name}_decoding_operations": units[name] for name in NEW}
    return xr.Dataset({name: (("replica", "length"), [[cost, 2 * cost]] * 2) for name, cost in of.items()})


def measured(**scores: float) -> dict[str, xr.Dataset]:
    by_chance = prompts(tuple(of / 5 for of in COVERED), full=0.05)
    return {"retrieval": prompts(COVERED, **scores), "untrained": by_chance, "cost": costs()}


def story(study: GemFilterStudy = STUDY, finds: str = "holds", no_worse: str = "holds", **scores: float) -> Any:
    return study.story(measured(**scores), judged({FINDS: finds, NO_WORSE: no_worse}))


def figures(study: GemFilterStudy = STUDY, runs: Mapping[str, xr.Dataset] | None = None) -> Mapping[str, Any]:
    return {figure.id: figure for figure in study.figures(runs or measured())}


def test_the_story_is_of_lengths_that_were_trained_on():
    assert story().found == (
        "One layer finds the hidden sentence (95 % of texts). Reading its choice is as good as reading all (80 % "
        "against 90 %); with the question kept 85 %."
    )
    assert story().lede.endswith(
        "A curve shows how much of the answer came back; shares above are of texts of up to 160 tokens."
    )
    assert story(replace(STUDY, trained=512)).lede.endswith("how much of the answer came back.")
    assert "GemFilter has layer 3 (of 0 to 5) choose 64 tokens" in story().lede


def test_the_story_turns_with_verdicts_and_says_how_often_what_is_missed_is_found():
    missed = story(finds="fails", no_worse="fails").found
    assert missed.startswith("One layer often misses the hidden sentence (found in 95 % of texts). Reading its choice")
    assert "is worse than reading all (80 % against 90 %)" in missed
    open_ = story(finds="undecided", no_worse="undecided").found
    assert "may find the hidden sentence (95 % of texts). Reading its choice may be worse than" in open_


def test_nothing_is_compared_where_the_whole_text_does_not_give_the_answer():
    assert story(full=0.4).found == (
        "Not even the whole text gives the answer (full attention 40 %), so that nothing can be compared. One layer "
        "finds the hidden sentence (95 % of texts)."
    )


def test_headlines_are_of_what_their_claims_are_about():
    assert story().headlines == {
        FINDS: "In 95 % of texts; with random weights in 19 %.",
        NO_WORSE: "80 % of the answer against 90 %. It keeps the end of the question in 40 % of texts.",
        "question-kept-is-no-worse@retrieval": "85 % against 90 %.",
        "gemfilter-beats-snapkv@retrieval": "80 % against 70 %; H2O has 60 %.",
        "prompt-time-ratio@cost": "",
    }


def test_curves_of_answers_are_those_of_the_methods_that_they_are_called():
    methods, whole, ablations = figures()["scores"].panels
    drawn = {panel.title: [curve.label for curve in panel.curves] for panel in (methods, whole, ablations)}
    of_methods = ["full attention", "GemFilter", "question kept", "SnapKV", "H2O"]
    assert drawn == {
        "Methods": of_methods,
        "Whole answers": of_methods,
        "Ablations": ["GemFilter", "one run", "middle row", "largest row"],
    }
    by_label = {METHODS[name].label: score for name, score in SCORES.items()}
    for panel, part in ((methods, 1), (whole, 2), (ablations, 1)):
        assert panel.marks == [(160.0, "longest trained on")]
        for line in panel.curves:
            known = by_label[line.label] / part
            assert line.x.tolist() == [112, 160, 512]
            np.testing.assert_allclose(line.y, [known - 0.005, known + 0.005, known / 10])
            assert (line.low <= line.y).all()
            assert (line.y <= line.high).all()
    assert whole.y_label == "share of prompts answered whole"
    caption = figures()["scores"].caption
    assert "64 tokens are kept, for GemFilter chosen by layer 3. Left, methods, and how often all of the" in caption


def test_marks_and_whole_answers_are_drawn_where_there_are_some():
    near = figures(replace(STUDY, trained=512))["scores"]
    assert [panel.marks for panel in near.panels] == [[]] * 3
    runs = measured()
    before = figures(runs=runs | {"retrieval": runs["retrieval"].drop_vars("exact")})["scores"]
    assert [panel.title for panel in before.panels] == ["Methods", "Ablations"]
    assert "Left, methods; right, GemFilter" in before.caption


def test_layers_go_across_and_lengths_down():
    layers = figures()["layers"]
    assert (layers.rows, layers.columns, layers.ends) == (["112", "160", "512"], [*"012345"], (0, 1))
    assert (layers.row_label, layers.column_label) == ("length of the text (tokens)", "layer that chooses")
    first = {label: panel[0] + 0.005 for label, panel in layers.panels.items()}
    for label, expected in (
        ("choice touches the hidden sentence", COVERED),
        ("the same, random weights", np.array(COVERED) / 5),
        ("last token is chosen", 0.1 + np.arange(6) / 10),
        ("answer's words given", 0.3 + np.arange(6) / 10),
    ):
        np.testing.assert_allclose(first[label], expected, err_msg=label)


def test_a_curve_over_kept_tokens_is_of_a_length():
    figure = figures()["keeps"]
    (panel,) = figure.panels
    assert [line.label for line in panel.curves] == ["112 tokens", "160 tokens", "512 tokens"]
    for line, expected in zip(panel.curves, ([0.395, 0.595], [0.405, 0.605], [0.04, 0.06]), strict=True):
        assert line.x.tolist() == [32, 64]
        np.testing.assert_allclose(line.y, expected)
    assert (panel.x_label, panel.log_x) == ("kept tokens", True)


def test_costs_are_drawn_in_their_units_beside_formulas():
    ratios, memory, new = figures()["cost"].panels
    measured = [
        (ratios, {"time": [0.25, 0.25], "operations": [1 / 16, 1 / 16]}),
        (memory, {"full attention": [6, 12], "SnapKV": [3, 6]}),
        (new, {"full attention": [8, 16], "GemFilter": [3, 6]}),
    ]
    for panel, expected in measured:
        found = {line.label: line for line in panel.curves if not line.dashed}
        assert found.keys() == expected.keys()
        for label, line in found.items():
            assert line.x.tolist() == [512, 1024]
            np.testing.assert_allclose(line.y, expected[label], err_msg=label)
    formulas = {line.label: line.y[[0, -1]] for panel in (ratios, memory, new) for line in panel.curves if line.dashed}
    assert formulas.keys() == {
        "operations, formula",
        "layers run (r/m)",
        "full attention, formula",
        "SnapKV, formula",
    }
    assert formulas["layers run (r/m)"].tolist() == [0.25, 0.25]
    one = 2 * 8 * 2 * 32 * 4 / MIB  # a token's keys and values: layers, heads of theirs, channels, bytes
    np.testing.assert_allclose(formulas["full attention, formula"], [512 * one, 1024 * one])
    np.testing.assert_allclose(formulas["SnapKV, formula"], [256 * one] * 2)
    assert ((formulas["operations, formula"] > 0.25) & (formulas["operations, formula"] < 0.27)).all()
    assert [memory.y_label, new.y_label] == ["memory (MiB)", "time (ms)"]


def test_a_table_shows_what_methods_say_where_they_differ_most():
    dims, sizes = ("replica", "length", "prompt"), (2, 3, 2)

    def of(words: str, *others: tuple[int, int, str]) -> tuple[Any, np.ndarray]:
        said = np.full(sizes, words, dtype=object)
        for length, prompt, other in others:
            said[0, length, prompt] = other
        return dims, said

    said = {f"said_{name}": of("amber lantern opens.") for name in METHODS}
    said["said_h2o"] = of("amber lantern", (0, 1, "lantern door"), (2, 0, "blue door"))
    said["said_snapkv"] = of("amber lantern", (2, 0, "amber door."))
    run = measured()["retrieval"].assign(said | {"wanted": of("amber lantern")})
    first, second, third = STUDY.tables({"retrieval": run})
    assert first.title == "512 tokens, prompt 1: “amber lantern” is wanted"
    assert second.title == "112 tokens, prompt 2: “amber lantern” is wanted"
    assert third.title == "160 tokens, prompt 1: “amber lantern” is wanted"
    rows = {label: cells for label, *cells in first.rows}
    assert [*rows] == [method.label for method in METHODS.values()]
    assert (rows["H2O"], rows["SnapKV"]) == (["0.00", "blue door"], ["0.50", "amber door."])
    assert rows["full attention"] == ["1.00", "amber lantern opens."]
    assert {label: cells for label, *cells in second.rows}["H2O"] == ["0.50", "lantern door"]
    assert first.headings == ["method", "share of the answer's words", "answer"]
