"""The study LongBench, small: a model of random weights, answers that are planted, and faults that change verdicts."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import xarray as xr
from small_longbench import line, saved_model, write

from featscope.claims import Claim
from featscope.language import FullCache, GemFilter, SnapKV
from featscope.language.longbench import TASKS, read_task
from featscope.language.longbench.answer import Answered
from featscope.language.longbench.published import PUBLISHED
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.longbench import LongBench, figures, judge
from featscope.studies.longbench import study as module

EXAMPLES = 10
Scores = Callable[[str, str, int], float]
"""(method, task, number of the example) -> the score planted."""


@cache
def data() -> str:
    """A folder with ten examples of each task."""
    folder = Path(mkdtemp())
    for task in TASKS:
        write(folder, {task: EXAMPLES}, [line(task, input=str(i)) for i in range(EXAMPLES)])
    return str(folder)


def study(**options) -> LongBench:
    return LongBench(model=saved_model(), layer=1, keep=100, **options)


def method_of(method) -> str:
    if isinstance(method, GemFilter):
        return "middle-row" if method.row == "middle" else "gemfilter"
    return "full" if isinstance(method, FullCache) else "snapkv" if isinstance(method, SnapKV) else "h2o"


def planted(monkeypatch, scores: Scores, kept: int = 100, **options) -> tuple[LongBench, Mapping[str, xr.Dataset]]:
    """The study with ``scores`` in place of generated answers; prompts have 1000 tokens."""

    def answer(method, tokenizer, task, example, most, *, chat):
        name = method_of(method)
        score = scores(name, task.name, int(example.input))
        return Answered("", score, 1000, 1000 if name == "full" else kept, 0)

    monkeypatch.setattr(module, "answer", answer)
    chosen = study(data=data(), **options)
    return chosen, trained(chosen)


def trained(chosen: LongBench, replicas: int = 1) -> Mapping[str, xr.Dataset]:
    """All arms."""
    found = {}
    for arm in chosen.arms():
        folder = RunFolder.create(Path(mkdtemp()) / "run")
        parts = [
            Shard(arm, range(r, r + 1), 0, "cpu").run(folder, lambda: False, lambda steps, status: None).data[0]
            for r in range(replicas)
        ]
        found[arm.name] = xr.concat(parts, "replica")
    return found


def judged(chosen: LongBench, runs: Mapping[str, xr.Dataset]) -> Mapping[tuple[str, str], Claim]:
    return {(claim.id, claim.arm): claim for claim in chosen.claims(runs)}


def healthy(method: str, task: str, example: int) -> float:
    """GemFilter and SnapKV alike but for noise of mean 0; H2O a little less; a middle row finds nothing."""
    noise = 1.0 if example % 2 else -1.0
    wanted = {"gemfilter": 40 + noise, "snapkv": 40 - noise, "h2o": 36.0, "full": 42.0, "middle-row": 5.0}
    return wanted[method] + 2 * list(TASKS).index(task)


COMPARABLE, NO_WORSE = "gemfilter-is-comparable-to-snapkv", "gemfilter-is-no-worse-than-h2o"


def test_claims_hold_and_the_control_fails(monkeypatch):
    chosen, runs = planted(monkeypatch, healthy)
    claims = judged(chosen, runs)
    for key, claim in claims.items():
        if key[0] != "compression":
            assert claim.verdict == ("holds" if claim.expected else "fails"), key
    assert claims[COMPARABLE, "gemfilter"].n == EXAMPLES * len(TASKS)
    assert {claim.id for claim in claims.values()} == {statement.id for statement in LongBench.statements}
    assert not claims[COMPARABLE, "middle-row"].expected
    assert float(runs["full"]["mean_score"][0]) == pytest.approx(42 + 13)
    assert [arm.name for arm in chosen.arms() if arm.control] == ["middle-row"]


def worse_than(which: str, points: float) -> Scores:
    return lambda method, task, example: healthy(method, task, example) - points * (method == which)


def one_task_lost(method: str, task: str, example: int) -> float:
    return 0.0 if (method, task) == ("gemfilter", "narrativeqa") else healthy(method, task, example)


def nothing_found(method: str, task: str, example: int) -> float:
    return 0.0


FAULTS = {
    "GemFilter loses 4 points": (worse_than("gemfilter", 4), COMPARABLE, "gemfilter", "fails"),
    "SnapKV loses 4 points": (worse_than("snapkv", 4), COMPARABLE, "gemfilter", "fails"),
    "GemFilter loses 2 points": (worse_than("gemfilter", 2), COMPARABLE, "gemfilter", "undecided"),
    "one task is lost": (one_task_lost, COMPARABLE, "gemfilter", "undecided"),
    "GemFilter loses 6 points": (worse_than("gemfilter", 6), NO_WORSE, "gemfilter", "fails"),
    "nobody finds anything": (nothing_found, COMPARABLE, "gemfilter", "undecided"),
    "nobody finds anything, H2O": (nothing_found, NO_WORSE, "gemfilter", "undecided"),
    "nobody finds anything, control": (nothing_found, COMPARABLE, "middle-row", "undecided"),
    "nothing to lose": (nothing_found, "something-to-lose", "full", "fails"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_scores_change_the_verdict(name, monkeypatch):
    scores, claim, arm, verdict = FAULTS[name]
    chosen, runs = planted(monkeypatch, scores)
    assert judged(chosen, runs)[claim, arm].verdict == verdict


def test_a_token_too_many_is_found(monkeypatch):
    chosen, runs = planted(monkeypatch, healthy, kept=101)
    assert judged(chosen, runs)["kept-is-k", "gemfilter"].verdict == "fails"


@pytest.mark.parametrize(("keep", "verdict"), [(1024, "holds"), (4096, "fails")])
def test_compression_is_that_of_the_paper(keep, verdict, monkeypatch):
    chosen, runs = planted(monkeypatch, healthy)
    longer = {arm: run.assign(tokens=run["tokens"] * 12.8, kept=run["kept"] * 10.24) for arm, run in runs.items()}
    claim = judged(replace(chosen, keep=keep), longer)["compression", "gemfilter"]
    assert claim.measured == pytest.approx(0.08)
    assert claim.predicted == pytest.approx(0.08 * keep / 1024)
    assert claim.verdict == verdict
    assert claim.expected
    part = judged(replace(chosen, keep=keep, context=8192), longer)["compression", "gemfilter"]
    assert not part.expected


def test_a_wrong_digit_in_a_table_is_found(monkeypatch):
    row = PUBLISHED["phi-3.5-mini"]["SnapKV-2048"]
    wrong = replace_score(row.scores, 3, 21.9)  # printed 21.8
    monkeypatch.setitem(PUBLISHED["phi-3.5-mini"], "SnapKV-2048", row._replace(scores=wrong))
    found = {claim.arm: claim.verdict for claim in judge._published() if claim.id == "published-averages-are-means"}
    assert found == {"Table 9.1": "fails", "Table 9.2": "holds", "Table G.1": "holds"}


def replace_score(scores: tuple[float, ...], place: int, value: float) -> tuple[float, ...]:
    return (*scores[:place], value, *scores[place + 1 :])


def test_tasks_count_alike_however_many_examples_they_have():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    spread = judge.spread_evenly(values, np.array([0, 0, 0, 1]))
    assert spread.mean() == pytest.approx((2 + 10) / 2)
    assert judge.spread_evenly(values, np.array([0, 1, 0, 1])) == pytest.approx(values)


def test_the_ratio_of_means_is_not_the_mean_of_ratios():
    above, below = np.array([1.0, 1.0]), np.array([2.0, 8.0])
    for near in (0.1, 0.2, 0.5):
        assert judge.ratio(above, below, near).mean() == pytest.approx(0.2)


def test_a_copy_of_real_data_in_another_replica_is_no_evidence(monkeypatch):
    chosen, _ = planted(monkeypatch, healthy, tasks=("qasper",))
    claims = judged(chosen, trained(chosen, replicas=2))
    assert claims[COMPARABLE, "gemfilter"].n == EXAMPLES


def test_examples_are_answered_with_what_the_arm_keeps(tmp_path):
    read_task.cache_clear()
    write(tmp_path, dict.fromkeys(TASKS, 2))
    chosen = study(data=str(tmp_path), tasks=("trec", "2wikimqa"), context=150, examples=1)
    assert (chosen.steps, chosen.names) == (2, ("2wikimqa", "trec"))
    runs = trained(chosen)
    for name, sound in runs.items():
        # a token is a byte: 2wikimqa's template alone has more than 150, trec's with its example and <s> 138
        assert sound["tokens"].values.tolist() == [[150, 138]]
        assert (sound["cut"].values[0] > 0).tolist() == [True, False]
        assert sound["kept"].values.tolist() == ([[150, 138]] if name == "full" else [[100, 100]])
        assert sound["task_score"].dims == ("replica", "task")
        assert float(sound["compression"][0]) == pytest.approx(1.0 if name == "full" else 200 / 288)
        assert float(sound["task_share"][0, 0]) == pytest.approx(1.0 if name == "full" else 2 / 3)


def test_a_prompt_of_fewer_than_k_tokens_is_kept_whole(tmp_path):
    write(tmp_path, {"trec": 1})
    chosen = replace(study(data=str(tmp_path), tasks=("trec",)), keep=200)
    claims = judged(chosen, trained(chosen))
    kept = [claims["kept-is-k", arm].verdict for arm in ("snapkv", "h2o", "gemfilter", "middle-row")]
    assert kept == ["holds"] * 4


def test_a_run_on_made_up_data_says_so_and_expects_nothing_of_it(tmp_path):
    chosen = study(tasks=("triviaqa", "passage_count"), examples=1)
    assert chosen.steps == 2
    outcome = run(chosen, Settings(), tmp_path / "run")
    claims = {(claim.id, claim.arm): claim for claim in outcome.claims}
    about_scores = [claims[key] for key in claims if key[0] in (COMPARABLE, NO_WORSE, "compression")]
    assert len(about_scores) == 5
    for claim in about_scores:
        assert not claim.expected
        assert "Made-up data" in claim.note
    assert chosen.headline(outcome.runs, outcome.claims).startswith("MADE-UP DATA")
    page = report_run(tmp_path / "run", chosen).read_text(encoding="utf-8")
    assert len(re.findall("MADE-UP DATA", page)) >= 4
    assert "say nothing about LongBench" in page


def test_figures_show_the_paper_beside_real_data_only(monkeypatch):
    chosen, runs = planted(monkeypatch, healthy)
    scores, differences, printed, lengths = chosen.figures(runs, [])
    assert [figure.id for figure in (scores, differences, printed, lengths)] == [
        "scores",
        "differences",
        "published",
        "lengths",
    ]
    assert len(scores.groups) == 15
    middle, low, high = scores.series["GemFilter"]
    assert middle[:2] == pytest.approx([40.0, 42.0])
    assert (low < middle).all()
    assert (middle < high).all()
    beside = differences.series["GemFilter-1024 less SnapKV-1024, printed"][0]
    assert beside[[0, -1]] == pytest.approx([20.71 - 31.98, 34.50 - 35.25], abs=0.005)
    assert set(printed.series) == {"All-KV", "SnapKV-1024", "H2O-4096", "GemFilter-1024"}
    assert lengths.panels[0].marks == [(100.0, "k")]
    made_up = list(replace(chosen, data="made-up").figures(runs, []))
    assert not any("printed" in name for name in made_up[1].series)
    assert made_up[0].title.endswith("on made-up data")
    chat = list(replace(chosen, published="llama-3.1-8b-chat").figures(runs, []))
    assert np.isnan(chat[2].series["All-KV"][0][6:-1]).all()
    assert chat[2].series["All-KV"][0][-1] == pytest.approx(41.46, abs=0.0051)
    layers = list(replace(chosen, published="llama-3.1-8b-layers").figures(runs, []))
    assert len(layers[2].series) == 8


def test_intervals_of_few_examples_are_not_drawn():
    tasks = np.array([0] * 9 + [1] * 10)
    middle, low, high = figures.means(np.arange(19.0), tasks)
    assert middle == pytest.approx([4.0, 13.5, (4.0 + 13.5) / 2])
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, False]
    assert (low[1:] < middle[1:]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("qasper", "lcc")}, r"tasks = \('qasper', 'lcc'\) .* some of narrativeqa, .*each once"),
        ({"tasks": ("qasper", "qasper")}, r"tasks = .* each once"),
        ({"examples": -1}, r"examples = -1 .* >= 0"),
        ({"keep": 32}, r"keep = 32 .* > 32\. SnapKV and H2O keep so many"),
        ({"layer": -1}, r"layer = -1 .* >= 0"),
        ({"context": 1}, r"context = 1 .* >= 2, or 0"),
        ({"data": ""}, r"data = '' .* 'made-up', a folder"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        LongBench(**options)


def test_options_that_do_not_go_with_the_model_are_named():
    (arm, *_) = study(chat=True, tasks=("qasper",)).arms()
    with pytest.raises(ConfigError, match=r"LongBench\.chat = True, but the tokenizer of .* has no chat template"):
        Shard(arm, range(1), 0, "cpu").build()
    (arm, *_) = LongBench(model=saved_model(), layer=2).arms()
    with pytest.raises(ConfigError, match=r"layer = 2 .* 0 to 1"):
        Shard(arm, range(1), 0, "cpu").build()
