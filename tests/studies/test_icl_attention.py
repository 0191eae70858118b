"""The study of what a label attends to, small: known ratios, what each arm shows to a model, planted faults."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import xarray as xr
from tiny_model import saved

from featscope.claims import Claim
from featscope.language import in_context
from featscope.language.in_context import FocusedRow, ModelRow, load_examples, spans
from featscope.options import ConfigError
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.streams import Streams
from featscope.studies.base import Arm
from featscope.studies.icl_attention import IclAttention, judge, measures

REPLICAS = 3
SMALL, LARGE = "small", "large"


def study(**options: Any) -> IclAttention:
    """Two random models of different size."""
    models = (saved(SMALL, 0, 16), saved(LARGE, 1, 32))
    return IclAttention(**{"models": models, "prompts": 8} | options)


def train(arm: Arm) -> xr.Dataset:
    """What is measured on ``arm``, seed 0."""
    parts = []
    with TemporaryDirectory() as place:
        folder = RunFolder.create(Path(place) / "run")
        for replica in range(REPLICAS):
            shard = Shard(arm, range(replica, replica + 1), 0, "cpu")
            parts += shard.run(folder, lambda: False, lambda steps, status: None).data
    return xr.concat(parts, "replica")


def arms() -> Mapping[str, Arm]:
    """By name."""
    return {arm.name: arm for arm in study().arms()}


@cache
def runs() -> Mapping[str, xr.Dataset]:
    """All arms."""
    return {name: train(arm) for name, arm in arms().items()}


def judged(measured: Mapping[str, xr.Dataset]) -> dict[tuple[str, str], Claim]:
    """(id, arm) -> claim."""
    return {(claim.id, claim.arm): claim for claim in study().claims(measured)}


@cache
def healthy() -> Mapping[tuple[str, str], Claim]:
    """The claims of `runs`."""
    return judged(runs())


def with_ratios(**ratios: float) -> dict[tuple[str, str], Claim]:
    """The claims if models' arms had these ratios (and their logarithms) in all replicas."""
    measured = dict(runs())
    for arm, ratio in ratios.items():
        name = arm.replace("_", "-")
        old = measured[name]
        measured[name] = old.assign(ratio=old["ratio"] * 0 + ratio, log_ratio=old["ratio"] * 0 + np.log(ratio))
    return judged(measured)


# --- what is known --------------------------------------------------------------------------------------------------


def test_hand_set_readers_have_the_ratios_that_they_were_given():
    claims = [claim for claim in healthy().values() if claim.arm in judge.HAND_SET]
    for claim in claims:
        assert claim.verdict == ("holds" if claim.expected else "fails"), (claim.id, claim.arm)
    ids = {claim.id for claim in healthy().values()}
    assert ids == {statement.id for statement in IclAttention.statements}
    np.testing.assert_allclose(runs()["focused"]["normalised_ratio"], 0.1, rtol=1e-6)
    uniform = runs()["uniform"]
    lengths = (uniform["irrelevant_tokens"] / uniform["relevant_tokens"]) ** 0.5
    np.testing.assert_allclose(uniform["ratio"], lengths.mean("prompt"), rtol=1e-6)


def test_a_models_ratio_is_that_of_its_norms():
    one = runs()[f"{SMALL}-correct"]
    ratio = one["irrelevant"] / one["relevant"]
    lengths = (one["relevant_tokens"] / one["irrelevant_tokens"]) ** 0.5
    np.testing.assert_allclose(one["ratio"], ratio.mean("prompt"))
    np.testing.assert_allclose(one["normalised_ratio"], (ratio * lengths).mean("prompt"))
    np.testing.assert_allclose(one["log_ratio"], np.log(ratio * lengths).mean("prompt"))
    assert float(one["parameters"][0]) < float(runs()[f"{LARGE}-correct"]["parameters"][0])


def shown(monkeypatch, layout: str) -> list[tuple[str, str, str]]:
    """(text, first span's characters, second span's) of the prompts of an arm of the small model, replica 2."""
    seen = []

    def keep(self, text, asked):
        seen.append((text, *(text[first:last] for first, last in asked)))
        return FocusedRow(1.0).read(text, asked)

    with monkeypatch.context() as patch:
        patch.setattr(ModelRow, "read", keep)
        experiment = arms()[f"{SMALL}-{layout}"].config.build(Streams(0, [2]))
        for step in range(4):
            experiment.advance(step)
    return seen


def test_arms_differ_in_what_they_say_they_do(monkeypatch):
    truth = {text: label for (text,), label in load_examples("sst2", "made-up", Streams(0, [2])).truth.items()}
    layouts = {layout: shown(monkeypatch, layout) for layout in judge.LAYOUTS}
    words = ("negative", "positive")
    for prompts in zip(*layouts.values(), strict=True):
        (right, relevant, irrelevant), wrong, swapped, unrelated = prompts
        word = words[truth[relevant]]
        assert right == f"sentence: {relevant} {irrelevant}\nThe answer is {word}"
        other = words[1 - truth[relevant]]
        assert wrong == (f"sentence: {relevant} {irrelevant}\nThe answer is {other}", relevant, irrelevant)
        assert swapped == (f"sentence: {irrelevant} {relevant}\nThe answer is {word}", relevant, irrelevant)
        text, instead, same = unrelated
        assert (text, same) == (f"sentence: {instead} {irrelevant}\nThe answer is {word}", irrelevant)
        assert instead not in (relevant, irrelevant)
        assert instead not in truth
        assert irrelevant not in truth


def test_orderings_go_by_the_ratios():
    more = with_ratios(small_correct=0.3, large_correct=0.9, small_wrong=0.3, large_wrong=0.2)
    assert more["larger-attends-to-both", f"{LARGE}-correct"].verdict == "holds"
    assert more["larger-attends-to-both-wrong-label", f"{LARGE}-wrong"].verdict == "fails"
    assert more["small-attends-to-relevant", f"{SMALL}-correct"].verdict == "holds"
    assert with_ratios(small_correct=0.6)["small-attends-to-relevant", f"{SMALL}-correct"].verdict == "fails"
    same = with_ratios(small_correct=0.3, large_correct=0.3)
    assert same["larger-attends-to-both", f"{LARGE}-correct"].verdict == "fails"


def test_place_is_taken_out():
    less = with_ratios(small_correct=0.8, small_unrelated=0.9, large_correct=0.9, large_unrelated=0.8)
    assert less["relevance-beyond-position", f"{SMALL}-correct"].verdict == "holds"
    assert less["relevance-beyond-position", f"{LARGE}-correct"].verdict == "fails"


def test_nothing_is_expected_of_random_models():
    assert not any(claim.expected for claim in healthy().values() if claim.arm not in judge.HAND_SET)
    controls = {arm.name for arm in arms().values() if arm.control}
    kinds = {f"{model}-{layout}" for model in (SMALL, LARGE) for layout in judge.CONTROLS}
    assert controls == kinds | set(judge.HAND_SET)


def test_it_runs_and_draws_four_panels(tmp_path):
    one = study(prompts=4)
    outcome = run(one, Settings(replicas=2), tmp_path / "run")
    norms, ratios = one.figures(outcome.runs, outcome.claims)
    assert [panel.title for panel in norms.panels] == [
        "Correct, relevant",
        "Correct, irrelevant",
        "Wrong, relevant",
        "Wrong, irrelevant",
    ]
    for panel, (layout, sentence) in zip(
        norms.panels,
        [("correct", "relevant"), ("correct", "irrelevant"), ("wrong", "relevant"), ("wrong", "irrelevant")],
        strict=True,
    ):
        assert [curve.label for curve in panel.curves] == [SMALL, LARGE]
        for curve in panel.curves:
            np.testing.assert_array_equal(curve.y, outcome.runs[f"{curve.label}-{layout}"][sentence][0])
    assert len(ratios.groups) == 10
    np.testing.assert_allclose(ratios.series["length-normalised, geometric mean"][0][-2:], [1.0, 0.1], rtol=1e-6)
    assert one.headline(outcome.runs, outcome.claims).count("times the norm") == 2


def test_irrelevant_sentences_of_a_file(tmp_path):
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(f"Fact  number {i} ." for i in range(16)) + "\n\n")
    one = study(irrelevant=str(file))
    found = one._irrelevant(Streams(0, [0]))
    assert sorted(found) == sorted(f"Fact number {i} ." for i in range(16))
    with pytest.raises(ConfigError, match=r"at least 18 different lines\. It has 16"):
        study(irrelevant=str(file), prompts=9)._irrelevant(Streams(0, [0]))
    with pytest.raises(ConfigError, match="cannot be read"):
        study(irrelevant=str(tmp_path / "nowhere"))._irrelevant(Streams(0, [0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ()}, "models"),
        ({"models": ("a/x", "b/x")}, "different last parts"),
        ({"models": ("a/uniform",)}, "none of"),
        ({"prompts": 0}, "prompts = 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        study(**options)


def test_more_prompts_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="at most 1000, what the data have"):
        replace(arms()["uniform"].config, prompts=1001).build(Streams(0, [0]))


# --- planted faults -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """``setattr(where, name, line)`` plants it; running ``arm`` again shows it to ``claim``."""

    where: Any
    name: str
    line: Any
    claim: str
    arm: str


norms, inside, found = spans.span_norms, spans._inside, measures.found


def without_squares(row, asked):
    return [
        one._replace(norm=float(row.weights[:, inside(row.offsets, span)].sum()))
        for one, span in zip(norms(row, asked), asked, strict=True)
    ]


FAULTS = {
    "sums of weights": Fault(in_context, "span_norms", without_squares, "raw-is-exact", "uniform"),
    "a span that ends a token late": Fault(
        spans,
        "_inside",
        lambda offsets, span: inside(offsets, (span[0], span[1] + 4)),
        "normalised-is-exact",
        "focused",
    ),
    "spans exchanged": Fault(
        in_context, "span_norms", lambda row, asked: norms(row, asked)[::-1], "small-attends-to-relevant", "focused"
    ),
    "the ratio turned over": Fault(
        measures, "found", lambda one, two, size: found(two, one, size), "normalised-is-exact", "focused"
    ),
    "one reader for both": Fault(
        FocusedRow,
        "read",
        lambda self, text, asked: read(FocusedRow(0.1), text, asked),
        "larger-attends-to-both",
        "uniform",
    ),
    "one reader for both, wrong label": Fault(
        FocusedRow,
        "read",
        lambda self, text, asked: read(FocusedRow(0.1), text, asked),
        "larger-attends-to-both-wrong-label",
        "uniform",
    ),
}
read = FocusedRow.read


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    fault = FAULTS[name]
    claim = healthy()[fault.claim, fault.arm]
    assert claim.expected
    assert claim.verdict == "holds"
    monkeypatch.setattr(fault.where, fault.name, fault.line)
    assert judged({**runs(), fault.arm: train(arms()[fault.arm])})[fault.claim, fault.arm].verdict != "holds"
