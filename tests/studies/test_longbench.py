"""The study LongBench, small: a model of random weights, answers that are planted, and faults that change verdicts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from small_longbench import line, saved_model, write

from featscope.check import check
from featscope.commands.stored import export_run
from featscope.language import FullCache, GemFilter, SnapKV
from featscope.language.load import RETRIEVER_LAYER, load_model
from featscope.language.longbench import TASKS, answer, benchmark, read_task
from featscope.language.longbench.answer import Answered
from featscope.language.longbench.published import PUBLISHED
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.runs.stored import read_trajectory, with_texts
from featscope.streams import Streams
from featscope.studies.longbench import LongBench, figures
from featscope.testing import Claims, Trial, by_name, measure
from featscope.training.evaluation import as_text, in_bytes

EXAMPLES = 10
Scores = Callable[[str, str, int], float]
"""(method, task, number of the example) -> the score planted."""


@cache
def data() -> str:
    """A folder with ten examples of each task."""
    folder = Path(mkdtemp())
    for task in TASKS:
        write(
            folder,
            {task: EXAMPLES},
            [line(task, input=str(i), context=f"The old captain came on day {i} of {task}.") for i in range(EXAMPLES)],
        )
    return str(folder)


def study(**options) -> LongBench:
    return LongBench(model=saved_model(), layer=1, keep=100, **options)


def method_of(method) -> str:
    if isinstance(method, GemFilter):
        rule = method.selector
        chosen = "question-kept" if rule.window else "gemfilter"
        return "middle-row" if rule.row == "middle" else chosen
    return "full" if isinstance(method, FullCache) else "snapkv" if isinstance(method, SnapKV) else "h2o"


def planted(scores: Scores, kept: int = 100) -> Callable[..., Answered]:
    """What stands for `answer`: ``scores``, of prompts that have 1000 tokens."""

    def found(method, tokenizer, task, example, most, *, chat):
        name = method_of(method)
        score = scores(name, task.name, int(example.input))
        return Answered("", score, score > 50, 1000, 1000 if name == "full" else kept, 0)

    return found


def healthy(method: str, task: str, example: int) -> float:
    """GemFilter and SnapKV alike but for noise of mean 0; H2O a little less; a middle row finds nothing."""
    noise = 1.0 if example % 2 else -1.0
    wanted = {"gemfilter": 40 + noise, "snapkv": 40 - noise, "h2o": 36.0, "full": 42.0, "middle-row": 5.0}
    wanted["question-kept"] = wanted["gemfilter"]
    return wanted[method] + 2 * list(TASKS).index(task)


@pytest.fixture(scope="module", autouse=True)
def _planted_answers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "answer", planted(healthy))
        yield


@pytest.fixture
def answers(monkeypatch) -> None:
    """Answers that the model gives itself."""
    monkeypatch.setattr(benchmark, "answer", answer)


@cache
def trial() -> Trial:
    """All arms with planted answers."""
    return Trial(study(data=data()), replicas=1)


def trained(chosen: LongBench, replicas: int = 1) -> Mapping[str, xr.Dataset]:
    """All arms."""
    return {arm.name: measure(chosen, arm, replicas) for arm in chosen.arms()}


def judged(chosen: LongBench, runs: Mapping[str, xr.Dataset]) -> Claims:
    return by_name(chosen.claims(runs))


ARMS = ("gemfilter", "question-kept", "snapkv", "h2o", "full", "middle-row")
COMPARABLE, NO_WORSE = "gemfilter-is-comparable-to-snapkv", "gemfilter-is-no-worse-than-h2o"
WINDOW = "question-kept-is-comparable-to-snapkv"


def test_claims_hold_and_fail_where_the_middle_row_chooses():
    claims = trial().healthy
    for key, claim in claims.items():
        if key[0] not in ("compression", "right-answers-have-all-points"):
            assert claim.verdict == ("holds" if claim.expected else "fails"), key
    assert claims[COMPARABLE, "gemfilter"].n == EXAMPLES * len(TASKS)
    assert {claim.id for claim in claims.values()} == {statement.id for statement in LongBench.statements()}
    assert not claims[COMPARABLE, "middle-row"].expected
    assert float(trial().run("full")["mean_score"][0]) == pytest.approx(42 + 13)
    assert tuple(trial().arms) == ARMS


def worse_than(which: str, points: float) -> Scores:
    return lambda method, task, example: healthy(method, task, example) - points * (method == which)


def one_task_lost(method: str, task: str, example: int) -> float:
    return 0.0 if (method, task) == ("gemfilter", "narrativeqa") else healthy(method, task, example)


def nothing_found(method: str, task: str, example: int) -> float:
    return 0.0


FAULTS = {
    "GemFilter loses 4 points": (worse_than("gemfilter", 4), COMPARABLE, "gemfilter", "fails", ["gemfilter"]),
    "the window loses 4": (worse_than("question-kept", 4), WINDOW, "question-kept", "fails", ["question-kept"]),
    "SnapKV loses 4 points": (worse_than("snapkv", 4), COMPARABLE, "gemfilter", "fails", ["snapkv"]),
    "GemFilter loses 2 points": (worse_than("gemfilter", 2), COMPARABLE, "gemfilter", "undecided", ["gemfilter"]),
    "one task is lost": (one_task_lost, COMPARABLE, "gemfilter", "undecided", ["gemfilter"]),
    "GemFilter loses 6 points": (worse_than("gemfilter", 6), NO_WORSE, "gemfilter", "fails", ["gemfilter"]),
    "nobody finds anything": (nothing_found, COMPARABLE, "gemfilter", "undecided", ARMS),
    "nobody finds anything, H2O": (nothing_found, NO_WORSE, "gemfilter", "undecided", ARMS),
    "nobody finds anything, control": (nothing_found, COMPARABLE, "middle-row", "undecided", ARMS),
    "nothing to lose": (nothing_found, "something-to-lose", "full", "fails", ["full"]),
}
"""Scores, and the verdict that they lead to if these arms are run with them."""


@pytest.mark.parametrize("name", FAULTS)
def test_planted_scores_change_the_verdict(name, monkeypatch):
    scores, claim, arm, verdict, arms = FAULTS[name]
    assert trial().healthy[claim, arm].verdict == ("fails" if arm == "middle-row" else "holds")
    for each in arms:
        trial().run(each)
    monkeypatch.setattr(benchmark, "answer", planted(scores))
    assert trial().judge_again(claim, arm, *arms).verdict == verdict


STORIES = {
    "GemFilter loses 4 points": "GemFilter does not score as SnapKV does: 49.0 and 53.0 of 100",
    "one task is lost": "Whether GemFilter scores as SnapKV does is open",
    "nothing to lose": "The model finds too little to compare anything: 0.0 of 100 points",
}
"""What is said where these scores are planted."""


@pytest.mark.parametrize("name", STORIES)
def test_the_story_turns_with_planted_scores(name, monkeypatch):
    chosen, runs = trial().study, trial().runs
    assert chosen.story(runs, chosen.claims(runs)).found == (
        "GemFilter scores as SnapKV does: 53.0 and 53.0 of 100 with 10 % of a text, 55.0 with all."
    )
    scores, *_, arms = FAULTS[name]
    monkeypatch.setattr(benchmark, "answer", planted(scores))
    runs = runs | {arm: measure(chosen, chosen.arm(arm), 1) for arm in arms}
    assert chosen.story(runs, chosen.claims(runs)).found.startswith(STORIES[name])


def test_a_token_too_many_is_found(monkeypatch):
    assert trial().healthy["kept-is-k", "gemfilter"].verdict == "holds"
    monkeypatch.setattr(benchmark, "answer", planted(healthy, kept=101))
    assert trial().judge_again("kept-is-k", "gemfilter", "gemfilter").verdict == "fails"


@pytest.mark.parametrize(("keep", "verdict"), [(1024, "holds"), (4096, "fails")])
def test_compression_is_that_of_the_paper(keep, verdict):
    chosen = trial().study
    longer = {
        arm: run.assign(
            tokens=run["tokens"] * 12.8, kept=run["kept"] * 10.24 + 1e-3 * (run["kept"].cumsum("example") % 7 - 3)
        )
        for arm, run in trial().runs.items()
    }
    claim = judged(replace(chosen, keep=keep), longer)["compression", "gemfilter"]
    assert claim.measured == pytest.approx(0.08, rel=1e-4)
    assert claim.predicted == pytest.approx(0.08 * keep / 1024)
    assert claim.verdict == verdict
    assert claim.expected
    part = judged(replace(chosen, keep=keep, context=8192), longer)["compression", "gemfilter"]
    assert not part.expected


def test_questions_about_one_text_are_one_sample():
    """Five questions a text: whether they are told well goes with the text."""
    runs, key = trial().runs, ("something-to-lose", "full")
    texts = runs["full"]["text_of"] // 5
    together = {arm: run.assign(text_of=texts, score=run["score"] + 5 * (texts % 2)) for arm, run in runs.items()}
    apart = {arm: run.assign(text_of=runs["full"]["text_of"]) for arm, run in together.items()}
    of_texts, of_questions = (judged(trial().study, of)[key] for of in (together, apart))
    assert of_texts.measured == pytest.approx(of_questions.measured)
    assert np.ptp(of_texts.interval) > 1.8 * np.ptp(of_questions.interval)
    assert of_texts.n == of_questions.n / 5


def test_compression_is_told_where_some_prompts_are_twice_as_long_as_most():
    run = trial().run("gemfilter")
    lengths = np.random.default_rng(0).lognormal(9.2, 0.7, run["tokens"].shape)
    assert lengths.max() > 2 * lengths.mean()
    longer = run.assign(tokens=run["tokens"] * 0 + lengths, kept=run["kept"] * 0 + 0.08 * lengths.mean())
    claim = judged(replace(trial().study, keep=1024), {**trial().runs, "gemfilter": longer})["compression", "gemfilter"]
    assert claim.measured == pytest.approx(0.08)
    assert claim.outside is None


def test_tasks_of_fewer_examples_do_not_hinder_a_verdict():
    """As MultiFieldQA has 150 and the others 200: its wrong answers count less than 0 points."""
    some = [place for place in range(EXAMPLES * len(TASKS)) if place >= EXAMPLES // 2]
    runs = {arm: run.isel(example=some) for arm, run in trial().runs.items()}
    wrong = np.zeros(runs["full"]["score"].shape, bool)
    wrong[0, :2] = True  # of the task that has fewer
    lost = np.arange(wrong.size).reshape(wrong.shape) % 5 / 10
    scores = {arm: np.where(wrong, 0.0, 100.0 - lost * place) for place, arm in enumerate(runs)}
    right = {arm: run.assign(score=run["score"].copy(data=scores[arm])) for arm, run in runs.items()}
    right = {arm: run.assign(text_of=run["text_of"] * 0 + np.arange(wrong.shape[1]) // 2) for arm, run in right.items()}
    claims = judged(trial().study, right)
    assert min(claims["something-to-lose", "full"].values) < 0
    for key in (("something-to-lose", "full"), (COMPARABLE, "gemfilter"), (WINDOW, "question-kept")):
        assert claims[key].verdict == "holds", key


def test_methods_are_not_told_apart_where_full_attention_was_not_asked_and_the_reason_is_said():
    chosen = replace(trial().study, methods=("gemfilter", "snapkv"))
    claim = judged(chosen, {arm: trial().run(arm) for arm in chosen.methods})[COMPARABLE, "gemfilter"]
    assert claim.verdict == "undecided"
    assert "Without the arm full" in claim.note
    assert "add it to --methods" in claim.note


def test_points_that_a_right_answer_lacks_are_found(answers, monkeypatch):
    made_up = replace(study(), tasks=("triviaqa", "passage_count"), examples=2, methods=("full",))
    healthy = judged(made_up, trained(made_up))["right-answers-have-all-points", "full"]
    assert (healthy.verdict, healthy.expected) == ("holds", True)
    whole = benchmark.points
    monkeypatch.setattr(benchmark, "points", lambda *given, **options: whole(*given, **options) / 2)
    assert judged(made_up, trained(made_up))["right-answers-have-all-points", "full"].measured == pytest.approx(50)


def test_compression_is_not_expected_where_a_prompt_was_cut():
    def compression(cut: int) -> Any:
        run = trial().run("gemfilter")
        some = run["cut"].values.copy()
        some[0, 3] = cut
        runs = {**trial().runs, "gemfilter": run.assign(cut=run["cut"].copy(data=some))}
        return judged(trial().study, runs)["compression", "gemfilter"]

    assert compression(0).expected
    assert not compression(7).expected
    assert "1 of 140 prompts were cut" in compression(7).note


def test_a_wrong_digit_in_a_table_is_found(monkeypatch):
    row = PUBLISHED["phi-3.5-mini"]["SnapKV-2048"]
    wrong = (*row.scores[:3], 21.9, *row.scores[4:])  # printed 21.8
    monkeypatch.setitem(PUBLISHED["phi-3.5-mini"], "SnapKV-2048", row._replace(scores=wrong))
    claims = judged(trial().study, trial().runs)
    found = {arm: claim.verdict for (id_, arm), claim in claims.items() if id_ == "published-averages-are-means"}
    assert found == {"Table 9.1": "fails", "Table 9.2": "holds", "Table G.1": "holds"}


def test_a_copy_of_real_data_in_another_replica_is_no_evidence():
    chosen = study(data=data(), tasks=("qasper",))
    claims = judged(chosen, trained(chosen, replicas=2))
    assert claims[COMPARABLE, "gemfilter"].n == EXAMPLES


def test_examples_are_answered_with_what_the_arm_keeps(answers, tmp_path):
    write(tmp_path, dict.fromkeys(TASKS, 2))
    chosen = study(data=str(tmp_path), tasks=("trec", "2wikimqa"), context=150, examples=1)
    assert (chosen.arm("full").recipe.steps, chosen.names) == (2, ("2wikimqa", "trec"))
    runs = trained(chosen)
    for name, sound in runs.items():
        # a token is a byte: 2wikimqa's template alone has more than 150, trec's with its example and <s> 138
        assert sound["tokens"].values.tolist() == [[150, 138]]
        assert (sound["cut"].values[0] > 0).tolist() == [True, False]
        assert sound["kept"].values.tolist() == ([[150, 138]] if name == "full" else [[100, 100]])
        assert sound["task_score"].dims == ("replica", "task")
        assert float(sound["compression"][0]) == pytest.approx(1.0 if name == "full" else 200 / 288)
        assert float(sound["task_share"][0, 0]) == pytest.approx(1.0 if name == "full" else 2 / 3)


def test_prompts_are_put_into_the_chat_template_where_that_is_asked_for(answers, monkeypatch):
    model, tokenizer = load_model(saved_model())
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    monkeypatch.setattr(benchmark, "load_once", lambda *given: (model, tokenizer))
    plain, chat = (
        study(data=data(), tasks=("qasper",), chat=chat).arm("full").recipe.asker(Streams(0, [0]))(0)["tokens"]
        for chat in (False, True)
    )
    assert chat - plain == len("<system><user>") - 1, "and no <s>, which is for the template to say"


def test_a_prompt_of_fewer_than_k_tokens_is_kept_whole(answers, tmp_path):
    write(tmp_path, {"trec": 1})
    chosen = replace(study(data=str(tmp_path), tasks=("trec",)), keep=200)
    claims = judged(chosen, trained(chosen))
    assert [claims["kept-is-k", arm].verdict for arm in ARMS if arm != "full"] == ["holds"] * 5


def test_a_run_on_made_up_data_says_so_and_expects_nothing_of_it(answers, tmp_path):
    chosen = study(tasks=("triviaqa", "passage_count"), examples=1)
    assert chosen.arm("full").recipe.steps == 2
    outcome = run(chosen, Settings(), tmp_path / "run")
    about_scores = [claim for claim in outcome.claims if claim.id in (COMPARABLE, WINDOW, NO_WORSE, "compression")]
    assert len(about_scores) == 6
    for claim in about_scores:
        assert not claim.expected
        assert "says nothing of these data" in claim.note
    assert chosen.story(outcome.runs, outcome.claims).found.startswith("MADE-UP DATA")
    page = report_run(tmp_path / "run", chosen).read_text(encoding="utf-8")
    assert len(re.findall("MADE-UP DATA", page)) >= 4
    assert "say nothing about LongBench" in page


def test_answers_are_stored_to_be_read(answers, tmp_path):
    write(tmp_path / "data", {"trec": 2, "qasper": 1})
    chosen = study(data=str(tmp_path / "data"), tasks=("trec", "qasper"), methods=("full", "snapkv"))
    run(chosen, Settings(), tmp_path / "run")
    assert export_run([str(tmp_path / "run")]) == 0
    rows = pd.read_csv(tmp_path / "run/tables/snapkv.replica-example.csv")
    assert rows["wanted"].tolist() == ["the captain", "Date", "Date"]
    method = chosen.arm("snapkv").recipe.reading.build("snapkv", load_model(saved_model())[0])
    (example, *_) = read_task(str(tmp_path / "data"), "qasper")
    said = answer(method, load_model(saved_model())[1], TASKS["qasper"], example).text
    assert (
        as_text(in_bytes(said)) == with_texts(tmp_path / "run", read_trajectory(tmp_path / "run"))["snapkv"].said[0, 0]
    )
    page = report_run(tmp_path / "run", chosen).read_text(encoding="utf-8")
    assert "Scores and answers" in page
    assert "llama-3.1-8b, printed" in page
    assert "“the captain” is wanted" in page
    damaged = tmp_path / "run/weights/snapkv.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(ConfigError, match=r"snapkv\.safetensors cannot be read"):
        with_texts(tmp_path / "run", read_trajectory(tmp_path / "run"))


def test_nothing_is_stored_of_what_is_redacted(answers, tmp_path):
    write(tmp_path / "data", {"trec": 1})
    chosen = study(data=str(tmp_path / "data"), tasks=("trec",), methods=("full", "snapkv"), redact=True)
    run(chosen, Settings(), tmp_path / "run")
    found = with_texts(tmp_path / "run", read_trajectory(tmp_path / "run"))["full"]
    assert "said" not in found
    assert "score" in found
    assert not list((tmp_path / "run/weights").iterdir())
    assert "” is wanted" not in report_run(tmp_path / "run", chosen).read_text(encoding="utf-8")


def test_other_benchmarks_are_run_and_nothing_is_expected_of_their_scores(answers, tmp_path):
    lines = [{"context": "c" * 300, "input": "?", "answer": ["71"], "options": []}] * 3
    (tmp_path / "passkey.jsonl").write_text("\n".join(map(json.dumps, lines)))
    chosen = study(data=str(tmp_path), suite="infinitebench", tasks=("passkey",))
    outcome = run(chosen, Settings(), tmp_path / "run")
    claims = by_name(outcome.claims)
    assert claims["kept-is-k", "gemfilter"].verdict == "holds"
    for name in (COMPARABLE, NO_WORSE, "compression"):
        assert not claims[name, "gemfilter"].expected
    assert "published" not in [figure.id for figure in chosen.figures(outcome.runs)]
    assert "(InfiniteBench)" in chosen.story(outcome.runs, outcome.claims).lede


def test_figures_show_the_paper_beside_real_data_only():
    chosen, runs = trial().study, trial().runs
    scores, differences, printed, lengths = figures = list(chosen.figures(runs))
    assert [figure.id for figure in figures] == ["scores", "differences", "published", "lengths"]
    assert len(scores.groups) == 15
    middle, low, high = scores.series["GemFilter"]
    assert middle[:2] == pytest.approx([40.0, 42.0])
    assert (low < middle).all()
    assert (middle < high).all()
    beside = differences.series["GemFilter-1024 less SnapKV-1024, printed"][0]
    assert beside[[0, -1]] == pytest.approx([20.71 - 31.98, 34.50 - 35.25], abs=0.005)
    assert set(printed.series) == {"All-KV", "SnapKV-1024", "H2O-4096", "GemFilter-1024"}
    assert lengths.panels[0].marks == [(100.0, "kept (k)")]
    made_up = list(replace(chosen, data="made-up").figures(runs))
    assert not any("printed" in name for name in made_up[1].series)
    assert made_up[0].title.endswith("on made-up data")
    chat = list(replace(chosen, published="llama-3.1-8b-chat").figures(runs))
    assert np.isnan(chat[2].series["All-KV"][0][6:-1]).all()
    assert chat[2].series["All-KV"][0][-1] == pytest.approx(41.46, abs=0.0051)
    layers = list(replace(chosen, published="llama-3.1-8b-layers").figures(runs))
    assert len(layers[2].series) == 8


def test_scores_by_length_are_those_of_prompts_in_the_order_of_their_lengths():
    tokens = np.random.default_rng(0).permutation(12) * 100.0 + 100
    found = {"full": {"tokens": tokens, "score": tokens / 20, "cut": 0 * tokens}}
    share, means = (panel.curves[0] for panel in figures.lengths(found, "", 64).panels)
    np.testing.assert_array_equal(share.x, np.arange(100, 1201, 100))
    np.testing.assert_allclose(share.y, np.arange(1, 13) / 12)
    np.testing.assert_array_equal(means.x, [150, 350, 550, 750, 950, 1150])
    np.testing.assert_allclose(means.y, means.x / 20)


def test_examples_are_the_first_of_each_task(monkeypatch):
    asked = []
    plain = planted(healthy)
    monkeypatch.setattr(
        benchmark,
        "answer",
        lambda *given, chat: asked.append((given[2].name, given[3].input)) or plain(*given, chat=chat),
    )
    ask = study(data=data(), tasks=("qasper", "trec"), examples=2).arm("full").recipe.asker(Streams(0, [0]))
    assert [ask(example)["task_of"] for example in range(4)] == [0, 0, 1, 1]
    assert asked == [("qasper", "0"), ("qasper", "1"), ("trec", "0"), ("trec", "1")]


def test_tables_have_exact_matches_beside_points_and_what_is_printed():
    chosen, runs = trial().study, trial().runs
    beside, both = chosen.tables(runs)
    printed = [row for row in beside.rows if row[0].endswith("printed")]
    assert [row[0].split(",")[0] for row in printed] == ["All-KV", "SnapKV-1024", "H2O-4096", "GemFilter-1024"]
    assert printed[2][1] == "22.9"
    layers, _ = replace(chosen, published="llama-3.1-8b-layers").tables(runs)
    assert sum(row[0].startswith("layer-") for row in layers.rows) == 8
    cells = {row[0]: dict(zip(both.headings, row, strict=True)) for row in both.rows}
    assert [cells["H2O"][task] for task in ("Nrtv", "MuSi", "PRe")] == ["36.0 / 0.00", "46.0 / 0.00", "62.0 / 1.00"]
    assert cells["full attention"]["Mean"] == f"55.0 / {9 / 14:.2f}"
    assert float(trial().run("h2o")["task_exact"][0, -1]) == 1
    before = {arm: run.drop_vars(["exact", "task_exact"]) for arm, run in runs.items()}
    assert [table.title for table in chosen.tables(before)] == ["Measured, and as printed"]
    assert chosen.claims(before) == chosen.claims(runs)
    made_up = replace(chosen, data="made-up", model="retriever")
    assert [table.title[:12] for table in made_up.tables(runs)] == ["MADE-UP DATA"]


def test_methods_that_came_later_are_compared_where_they_are_named(answers, tmp_path):
    later = ("adakv", "fastkv", "promptdistill")
    assert not {*later} & {*LongBench().methods}
    write(tmp_path / "data", {"trec": 2})
    chosen = study(data=str(tmp_path / "data"), tasks=("trec",), methods=later)
    outcome = run(chosen, Settings(), tmp_path / "run")
    assert [by_name(outcome.claims)["kept-is-k", name].verdict for name in later] == ["holds"] * 3
    scores = next(iter(chosen.figures(outcome.runs)))
    assert list(scores.series) == ["AdaKV", "FastKV", "PromptDistill"]
    assert "layer 1 chooses" in scores.caption
    assert report_run(tmp_path / "run", chosen).is_file()


WITHOUT = [tuple(one for one in ARMS if one != arm) for arm in ("gemfilter", "snapkv", "h2o", "full")]


@pytest.mark.parametrize(
    "methods", [*(pytest.param(one, marks=pytest.mark.long) for one in WITHOUT[:3]), WITHOUT[3], ("full",)]
)
def test_methods_can_be_left_out(methods, tmp_path):
    chosen = study(data=data(), tasks=("trec", "qasper"), methods=methods)
    outcome = run(chosen, Settings(), tmp_path / "run")
    assert tuple(outcome.runs) == methods
    others = {COMPARABLE: "snapkv", WINDOW: "snapkv", NO_WORSE: "h2o"}
    for claim in (one for one in outcome.claims if one.id in others):
        assert {claim.arm, others[claim.id]} <= {*methods}
        assert (claim.verdict == "undecided") == ("full" not in methods)
    assert ("differences" in [one.id for one in chosen.figures(outcome.runs)]) == (len(methods) > 2)
    assert ("H2O" in chosen.story(outcome.runs, outcome.claims).lede) == ("h2o" in methods)
    assert report_run(tmp_path / "run", chosen).is_file()


def test_the_smallest_study_can_be_checked(answers):
    assert check(study()).problems == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ("qasper", "lcc")}, r"tasks = \('qasper', 'lcc'\) .* some of narrativeqa, .*each once"),
        ({"tasks": ("qasper", "qasper")}, r"tasks = .* each once"),
        ({"examples": -1}, r"examples = -1 .* >= 0"),
        ({"methods": ()}, r"methods = \(\) .* some of gemfilter, question-kept, snapkv, h2o, full, middle-row"),
        ({"methods": ("full", "full")}, r"methods = \('full', 'full'\) .* some of gemfilter"),
        ({"keep": 32}, r"keep = 32 .* > 32\. All but GemFilter by the paper's rule keep"),
        ({"layer": -1}, r"layer = -1 .* >= 0"),
        ({"model": "other/model"}, r"layer = None .* >= 0 where --model = 'other/model'. choose_layer"),
        ({"context": 1}, r"context = 1 .* >= 2, or 0"),
        ({"data": ""}, r"data = '' .* 'made-up', a folder"),
        ({"suite": "longbench-v2"}, r"data = 'made-up' .* a folder, or 'THUDM/LongBench-v2'"),
        ({"suite": "infinitebench", "data": "x", "tasks": ("trec",)}, r"tasks = \('trec',\) .* some of passkey, "),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        LongBench(**options)


def built(chosen: LongBench) -> Any:
    """The first arm, before its first question."""
    return next(iter(chosen.arms())).recipe.build(Streams(0, [0]))


def test_the_small_models_own_layer_chooses_unless_another_is_named():
    assert f"layer {RETRIEVER_LAYER} chooses" in LongBench().arms()[0].about
    assert "layer 1 chooses" in LongBench(layer=1).arms()[0].about
    assert len(LongBench(model="other/model", methods=("full", "h2o")).arms()) == 2, "where none chooses"


def test_options_that_do_not_go_with_the_model_are_named():
    with pytest.raises(
        ConfigError, match=r"chat = True .* the tokenizer of .* has no chat template\. Leave --chat out"
    ):
        built(study(chat=True, tasks=("qasper",)))
    with pytest.raises(ConfigError, match=r"layer = 2 .* 0 to 1"):
        built(LongBench(model=saved_model(), layer=2))
