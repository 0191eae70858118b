"""The study of needles, small; and faults that change its verdicts."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn.functional import one_hot

from featscope.claims.samples import Asked
from featscope.language import haystack
from featscope.language.attention import Attention
from featscope.language.load import load_model
from featscope.language.methods import METHODS, Reading
from featscope.language.retriever.data import Task
from featscope.options import ConfigError
from featscope.report.run_report import changed_in_words, report_run
from featscope.runs import Settings, run
from featscope.runs.plain import from_plain, to_plain
from featscope.streams import Streams
from featscope.studies.needle import NeedleInAHaystack, arms, unseen
from featscope.studies.needle.arms import KINDS
from featscope.studies.needle.study import ahead
from featscope.studies.needle.unseen import looks_at
from featscope.studies.summaries import percent
from featscope.testing import Fault, Trial, by_name, measure
from featscope.training.evaluation import as_text

SMALL = NeedleInAHaystack(lengths=(112, 160), depths=3, prompts=1, recall=2)
TRIAL = Trial(SMALL, replicas=4)
METHODS_ALONE = replace(SMALL, recall=0)
OWN = replace(
    SMALL,
    needle=" In Paris amber lantern opens the gate.",
    question="\nWhich words open the gate? In Paris",
    answer="amber lantern opens",
    methods=("full",),
)


def judged(**arms):
    """The claims with other measurements of some arms."""
    return by_name(SMALL.claims(TRIAL.runs | {name.replace("_", "-"): run for name, run in arms.items()}))


def asked(runs):
    """Those of the methods."""
    return {arm: run for arm, run in runs.items() if "normalised" in run}


def many(runs):
    """As if 32 replicas had measured the same: from few nothing follows where all agree."""
    return {arm: xr.concat([run] * 8, "replica") for arm, run in runs.items()}


def test_the_retriever_answers_and_not_without_the_needle():
    assert TRIAL.run("full").normalised.mean() > 0.95
    assert TRIAL.run("no-needle").normalised.mean() < 0.2
    assert TRIAL.healthy["the-needle-matters", "full"].measured > 0.75


def test_a_comparison_looks_at_no_other_arm():
    score = xr.DataArray(np.ones((2, 1, 1, 1)), dims=("replica", "length", "depth", "prompt"))
    runs = {
        arm: xr.Dataset({"normalised": score * points}) for arm, points in (("full", 1), ("no-needle", 0), ("h2o", 1))
    }
    asked = Asked(runs)
    assert ahead(asked, "full", "no-needle").measured.values.tolist() == [1, 1]
    assert asked.arms == {"full", "no-needle"}


def test_all_arms_ask_the_same(monkeypatch):
    asked: dict[str, list[torch.Tensor]] = {}

    class Asks:
        def __init__(self, name):
            self.name = name
            self.model = torch.nn.Linear(1, 1)
            self.model.device = torch.device("cpu")

        def generate(self, input_ids, attention_mask, **options):
            asked.setdefault(self.name, []).append(input_ids)
            output = torch.cat([input_ids, input_ids[:, :1]], 1)
            output.kept = torch.arange(input_ids.shape[1])[None]
            return output

    monkeypatch.setattr(Reading, "build", lambda self, name, model: Asks(name))
    two = replace(SMALL, prompts=2)
    for name in ("full", "gemfilter", "snapkv"):
        measure(two, two.arm(name), 1)
    tokenizer = load_model("retriever")[1]
    assert len({tuple(prompt[0].tolist()) for prompt in asked["full"]}) == 12
    assert {tokenizer.decode(prompt[0]).count(" opens the gate.") for prompt in asked["full"]} == {4}
    for name in ("gemfilter", "snapkv"):
        assert all(torch.equal(a, b) for a, b in zip(asked["full"], asked[name], strict=True))


def test_a_needle_of_ones_own_is_hidden_and_asked_for(tmp_path):
    (tmp_path / "essay.txt").write_text("One day is like another. " * 30)
    own = replace(OWN, haystack=str(tmp_path))
    found = measure(own, own.arm("full"), 1)
    assert found.score.mean() > 0.5
    assert (found.kept == 1).all()


def saying(words, monkeypatch):
    """Every method gives ``words``, whatever it is asked; the prompts are returned."""
    tokenizer, asked = load_model("retriever")[1], []

    class Says:
        def __init__(self, model):
            self.model = model

        def generate(self, input_ids, attention_mask, **options):
            asked.append(tokenizer.decode(input_ids[0]))
            output = torch.cat([input_ids, torch.tensor([tokenizer(words)["input_ids"]])], 1)
            output.kept = torch.arange(input_ids.shape[1])[None]
            return output

    monkeypatch.setattr(Reading, "build", lambda self, name, model: Says(model))
    monkeypatch.setattr(arms, "FullCache", Says)
    return asked


@pytest.mark.parametrize(
    ("answer", "said", "score"),
    [
        ("7421", " 7421.", 1),
        ("blue harbour", " blue harbour. Then", 1),
        ("blue harbour.", " blue harbour.", 1),
        ("blue harbour.", " blue harbour", 0.5),  # the paper's answer ends in a full stop
        ("3.5 million", " 3.5 million.", 1),
        ("4.2", " 4.2.", 1),
        ("4.2", " 4.2", 1),
        ("St. Petersburg", " St. Petersburg. Then", 1),
    ],
)
def test_a_full_stop_behind_an_answer_counts_where_the_answer_has_one(answer, said, score, monkeypatch):
    saying(said, monkeypatch)
    own = replace(OWN, answer=answer, new_tokens=32)
    found = measure(own, own.arm("full"), 1)
    assert (found.score == score).all()
    assert (found.exact == (score == 1)).all()


def test_answers_are_kept_to_be_read_unless_they_are_redacted(monkeypatch):
    saying(" lantern amber", monkeypatch)
    kept = [OWN, replace(OWN, redact=True)]
    asked = [one.arm("full").recipe.build(Streams(0, [0])) for one in kept]
    for evaluation in asked:
        evaluation.advance(0)
    said, redacted = (one.kept() for one in asked)
    texts = {name: as_text(stored.flatten(0, -2)[0]) for name, stored in said.items()}
    axes = "length:depth:prompt"
    assert texts == {f"text:said:{axes}": " lantern amber", f"text:wanted:{axes}": OWN.answer}
    assert redacted == {}


def test_needle_and_question_do_not_stick_to_the_text_before_them(monkeypatch):
    asked = saying(" amber lantern opens", monkeypatch)
    measure(OWN, OWN.arm("full"), 1)
    assert asked
    for prompt in asked:
        before = prompt.removesuffix("\nWhich words open the gate? In Paris")
        assert before != prompt
        assert not before.endswith(" ")
    for blank in ("", " "):
        asked.clear()
        own = replace(OWN, needle=blank + OWN.needle.strip(), question=blank + OWN.question.strip())
        measure(own, own.arm("full"), 1)
        assert all(" In Paris amber lantern" in prompt for prompt in asked)
        assert all(prompt.endswith(" Which words open the gate? In Paris") for prompt in asked)
        assert not any(prompt.endswith("  Which words open the gate? In Paris") for prompt in asked)


def test_a_question_that_the_window_does_not_hold_is_refused_where_it_is_to_be_kept(monkeypatch):
    saying(" amber lantern opens", monkeypatch)
    long = replace(OWN, question="\nWhich words open the gate of the old town behind the river and the hill? In Paris")
    measure(long, long.arm("full"), 1)
    both = replace(long, methods=("full", "question-kept"))
    with pytest.raises(ConfigError, match=r"window = 16 is out of range: allowed is >= \d\d, the question's tokens"):
        measure(both, both.arm("full"), 1)
    wide = replace(both, window=48)
    measure(wide, wide.arm("full"), 1)


def test_the_retriever_alone_is_asked_for_what_it_never_saw():
    other = NeedleInAHaystack(model="elsewhere", methods=("full",))
    assert [arm.name for arm in other.arms()] == ["full", "no-needle"]
    assert [arm.name for arm in other.smallest().arms()] == ["full", "no-needle"]
    for asked in (NeedleInAHaystack(), replace(other, recall=2)):
        assert "words" in [arm.name for arm in asked.arms()]


def test_it_runs_and_reports(tmp_path):
    tiny = replace(SMALL, lengths=(112,), depths=2, recall=0, methods=("full", "gemfilter"))
    outcome = run(tiny, Settings(replicas=2), tmp_path / "run")
    placed = {"needles-lie-from-first-to-last", "others-are-hidden-beside"}
    assert {claim.id for claim in outcome.claims} == {"gemfilter-beats-full", "the-needle-matters"} | placed
    page = report_run(tmp_path / "run", tiny).read_text()
    assert "Answers over length and place" in page
    assert page.count("% into the text, prompt ") == 2  # a table: its title, and what its frame is called


def test_methods_that_came_later_are_compared_where_they_are_named():
    later = ("adakv", "fastkv", "promptdistill")
    assert not {*later} & {*SMALL.methods}
    assert NeedleInAHaystack(model="elsewhere", methods=("adakv",)).layer is None
    with pytest.raises(ConfigError, match="choose_layer finds one"):
        NeedleInAHaystack(model="elsewhere", methods=("fastkv",))
    chosen = replace(METHODS_ALONE, methods=("full", *later), lengths=(160,), depths=1)
    runs = {arm.name: measure(chosen, arm, 1) for arm in chosen.arms()}
    for name in later:
        assert runs[name].kept.item() > 0, name
        assert runs[name].exact.item() == 1, name
    assert {"AdaKV", "FastKV", "PromptDistill"} <= next(iter(chosen.figures(runs))).panels.keys()


@pytest.mark.long
def test_the_page_shows_the_prompt_of_each_length_on_which_methods_differ_most():
    said = {}
    for arm in METHODS_ALONE.arms():
        run = TRIAL.run(arm.name)
        words = np.full(run.normalised.shape, f"{arm.name} said it", dtype=object)
        scores = run.normalised * 0 + 1.0
        if arm.name in ("h2o", "no-needle"):
            scores[0, 1, 2] = 0.5 if arm.name == "h2o" else 0.0
            scores[0, 0, 1] = 0.8 if arm.name == "h2o" else 0.0
        dims = run.normalised.dims
        said[arm.name] = run.assign(
            normalised=scores, said=(dims, words), wanted=(dims, np.full_like(words, "x" * 200))
        )
    first, second = METHODS_ALONE.tables(said)  # one for each length
    assert first.title.startswith("160 tokens, 100 % into the text, prompt 1: “xxx")
    assert second.title.startswith("112 tokens, 50 % into the text")
    assert len(first.title) < 200
    rows = {label: cells for label, *cells in first.rows}
    assert rows.keys() == {METHODS[name].label for name in METHODS_ALONE.methods}
    assert rows["H2O"] == ["0.50", "h2o said it"]
    assert rows["SnapKV"][0] == "1.00"
    assert list(METHODS_ALONE.tables(TRIAL.runs)) == [], "where nothing said is stored"


@pytest.mark.long
def test_grids_show_means_over_prompts_and_replicas():
    grid = next(iter(SMALL.figures(TRIAL.runs)))
    assert (grid.rows, grid.columns) == (["0", "50", "100"], ["112", "160"])
    scores = TRIAL.run("h2o").normalised
    for row, column in ((0, 1), (2, 0)):
        each = scores.isel(depth=row, length=column)
        assert grid.panels["H2O"][row, column] == pytest.approx(float(each.sum()) / each.size)


def test_methods_that_drop_nothing_are_noticed():
    dropping = ("snapkv", "h2o")
    runs = {arm: TRIAL.run(arm) for arm in dropping}
    for arm in dropping:
        healthy = by_name(TRIAL.study.claims(runs))["methods-drop-tokens", arm]
        assert healthy.measured < 0.95
        whole = runs[arm].assign(kept=runs[arm]["kept"] * 0 + 1.0)
        assert by_name(TRIAL.study.claims(runs | {arm: whole}))["methods-drop-tokens", arm].verdict != "holds"


HIDE = haystack.Haystack.hide
FAULTS = {
    "scores without reading": Fault(
        haystack, "normalised_score", lambda said, expected: 1.0, "the-needle-matters", "full", ("no-needle",)
    ),
    "needles in the middle alone": Fault(
        haystack.Haystack,
        "hide",
        lambda self, draws, length, depth, *needles: HIDE(self, draws, length, 0.5, *needles),
        "needles-lie-from-first-to-last",
        "full",
    ),
    "no needle beside": Fault(
        haystack.Haystack,
        "hide",
        lambda self, draws, length, depth, asked, others=(): HIDE(self, draws, length, depth, asked),
        "others-are-hidden-beside",
        "full",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
    TRIAL.require_noticed(FAULTS[name], monkeypatch)


@pytest.mark.long
def test_methods_are_not_compared_where_nothing_is_answered():
    silent = {arm: run.assign(normalised=0 * run.normalised) for arm, run in asked(TRIAL.runs).items()}
    found = by_name(METHODS_ALONE.claims(many(silent)))
    assert found["the-needle-matters", "full"].verdict == "fails"
    of_texts = {"methods-drop-tokens", "needles-lie-from-first-to-last", "others-are-hidden-beside"}
    compared = {
        claim.id: claim.verdict for claim in found.values() if claim.id not in {"the-needle-matters", *of_texts}
    }
    assert set(compared.values()) == {"undecided"}


@pytest.mark.long
def test_without_full_attention_the_best_of_the_methods_says_whether_anything_is_answered():
    for score, verdict in ((0.9, "fails"), (0.1, "undecided")):
        runs = {arm: run.assign(normalised=0 * run.normalised) for arm, run in asked(TRIAL.runs).items()}
        runs = {arm: run.assign(normalised=run.normalised + score * (arm == "snapkv")) for arm, run in runs.items()}
        claim = by_name(METHODS_ALONE.claims(many({k: v for k, v in runs.items() if k != "full"})))
        assert claim["gemfilter-beats-snapkv", "gemfilter"].verdict == verdict
        assert ("Nobody answers" in claim["gemfilter-beats-snapkv", "gemfilter"].note) == (verdict == "undecided")


@pytest.mark.long
def test_the_story_turns_with_what_is_found():
    def found(**scores: float) -> str:
        named = {name.replace("_", "-"): score for name, score in scores.items()}
        runs = {
            arm: run.assign(normalised=0 * run.normalised + named.get(arm, 0)) for arm, run in asked(TRIAL.runs).items()
        }
        runs = many(runs)
        return METHODS_ALONE.story(runs, METHODS_ALONE.claims(runs)).found

    assert found(full=1, snapkv=0.98, h2o=0.5, gemfilter=0.6, question_kept=0.7) == (
        "Keeping 47 % of a text can be enough for right answers: SnapKV 98 %, H2O 50 %, full attention 100 %."
    )
    assert "is not enough for right answers: GemFilter 80 %" in found(full=1, gemfilter=0.8)
    assert found(full=0.1).startswith("Not even the whole text gives the answer (full attention 10 %)")


def test_a_story_of_few_methods_is_told():
    for methods in ("full",), ("snapkv",):
        few = replace(METHODS_ALONE, methods=methods)
        runs = {arm.name: TRIAL.run(arm.name) for arm in few.arms()}
        story = few.story(runs, few.claims(runs))
        share = percent(TRIAL.run(methods[0]).normalised)
        assert f"{METHODS[methods[0]].label} {share}" in story.found
        assert len(story.headlines) == (methods == ("full",))


@pytest.mark.long
def test_a_tie_is_no_gain():
    full = TRIAL.run("full")
    found = judged(gemfilter=full, snapkv=full, question_kept=full)
    for name, arm in (
        ("gemfilter-beats-snapkv", "gemfilter"),
        ("gemfilter-beats-full", "gemfilter"),
        ("question-kept-beats-snapkv", "question-kept"),
    ):
        assert found[name, arm].verdict != "holds"
        assert found[name, arm].measured == 0
    found = by_name(SMALL.claims(many(TRIAL.runs | {"snapkv": full})))
    assert found["snapkv-is-like-full", "snapkv"].verdict == "holds"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": ()}, "ascending"),
        ({"depths": 0}, "1 to 1000000"),
        ({"methods": ()}, "some of full, gemfilter"),
        ({"methods": ("full", "full")}, "some of full"),
        ({"needle": "x"}, "together with --question and --answer"),
        ({"keep": 8}, "> window = 16"),
        ({"kernel": 4}, "kernel = 4 is out of range: allowed is an odd number"),
        ({"keep": 128}, "> keep = 128"),
        ({"model": "elsewhere"}, "choose_layer finds one"),
        ({"new_tokens": 0}, "1 to 1048576"),
        ({"recall": -1}, "0 to 1000000"),
        ({"haystack": "nowhere"}, "has no text"),
        ({"methods": ("snapkv",), "layer": 3}, "layer = 3 .* no value with --methods snapkv. No layer chooses"),
        ({"methods": ("h2o",), "kernel": 7}, "kernel = 7 .* no value with --methods h2o"),
        ({"methods": ("full",), "keep": 32}, "keep = 32 .* no value with --methods full. All is kept"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        NeedleInAHaystack(**options)


def test_full_attention_alone_is_asked_at_any_length():
    assert NeedleInAHaystack(methods=("full",), lengths=(48,)).lengths == (48,)


def test_only_gemfilter_needs_a_layer():
    assert NeedleInAHaystack(model="elsewhere", methods=("full", "snapkv")).layer is None


def test_a_length_that_does_not_hold_the_needle_is_refused():
    short = replace(SMALL, lengths=(20,), keep=17)
    with pytest.raises(ConfigError, match="too short: allowed is at least"):
        measure(short, short.arm("full"), 1)


class Reads(torch.nn.Module):
    """Knows the next token of what it is given; or says the last one again."""

    device = torch.device("cpu")

    def __init__(self, knows):
        super().__init__()
        self.knows = knows

    def forward(self, ids, use_cache):
        said = torch.roll(ids, -1, 1) if self.knows else ids
        return SimpleNamespace(logits=one_hot(said, 4096).float())


@pytest.fixture(scope="module")
def tokenizer():
    return load_model("retriever")[1]


def read_by(model, tokenizer, monkeypatch):
    """Claims about what was never seen, as if ``model`` had read 192 prompts of each kind and length."""
    monkeypatch.setattr(unseen, "load_once", lambda name, device: (model, tokenizer))
    runs = {kind: xr.concat([measure(SMALL, SMALL.arm(kind), 1)] * 96, "replica") for kind in KINDS}
    of = {test: arm for test in SMALL.tests for arm in test.arms(SMALL) if arm in KINDS}
    return {test.statement.id: test.judge(SMALL, arm, runs) for test, arm in of.items()}


def test_a_model_that_reads_nothing_is_seen(tokenizer, monkeypatch):
    reads, guesses = (read_by(Reads(knows), tokenizer, monkeypatch) for knows in (True, False))
    assert len(reads) == 10
    assert {claim.verdict for claim in reads.values()} == {"holds"}
    assert {claim.verdict for claim in guesses.values()} == {"fails"}


def test_part_of_an_answer_is_no_answer(tokenizer, monkeypatch):
    class Begins(Reads):
        """Knows all but the very last token."""

        def forward(self, ids, use_cache):
            found = super().forward(ids, use_cache)
            end = int(self.answer[0].nonzero()[-1])
            found.logits[0, end - 1] = 0
            return found

    model, judging = Begins(True), Task.judged

    def tell(self, kind, rng, length):
        row = judging(self, kind, rng, length)
        model.answer = torch.from_numpy(row[1])[None]
        return row

    monkeypatch.setattr(Task, "judged", tell)
    assert {claim.verdict for claim in read_by(model, tokenizer, monkeypatch).values()} == {"fails"}


def test_heads_are_looked_at_where_the_same_token_stood_before(monkeypatch):
    assert TRIAL.healthy["induction-heads-formed", "heads"].measured > 0.1
    assert TRIAL.healthy["induction-heads-formed", "untrained-heads"].measured < 0.1
    weights = torch.zeros(2, 64, 129)
    weights[1, range(64), range(2, 66)] = 0.5
    assert unseen.looks_at(weights, 2) == 0.5
    assert unseen.looks_at(weights, 64) == 0
    monkeypatch.setattr(unseen, "looks_at", lambda weights, first: looks_at(weights, first + 8))
    assert measure(SMALL, SMALL.arm("heads"), 1).induction.max() < 0.1


def test_claims_are_of_the_length_that_they_name():
    run = xr.Dataset({"whole": (("replica", "length", "prompt"), [[[1.0, 0.8], [0.5, 0.2]]] * 2)})
    tests = {test.statement.id: test for test in SMALL.tests if test.statement.id.startswith("retrieves-")}
    assert len(tests) == 10
    for name, test in tests.items():
        (arm,) = test.arms(SMALL)
        claim = test.judge(SMALL, arm, {arm: run})
        assert claim.values == pytest.approx([0.35 if name.endswith("-further") else 0.9] * 2), name


def test_the_best_layer_is_the_best_on_average():
    run = xr.Dataset({"induction": (("replica", "prompt", "layer"), [[[0.2, 0.8], [0.6, 0.2]]])})
    assert SMALL.induction_heads_formed.method(SMALL, run).item() == 0.5


@pytest.mark.parametrize(
    ("looks", "induction", "previous"),
    [
        (lambda row: row - 64, 0, 0),  # at its own token as it was said first
        (lambda row: row - 63, 1, 0),
        (lambda row: row - 60, 1, 0),
        (lambda row: row - 59, 0, 0),
        (lambda row: row - 1, 0, 1),
        (lambda row: row, 0, 0),
    ],
)
def test_what_a_head_looks_at_is_told_by_its_place(looks, induction, previous):
    """64 tokens, said twice behind a first one; of two heads one sees all alike."""
    places, queries = torch.eye(129)[None, None], torch.zeros(1, 2, 129, 129)
    for row in range(65, 129):
        queries[0, 1, row, looks(row)] = 99.0
    seen = unseen._Looks()
    seen.after(Attention(0, queries, places, None, 1.0))
    assert (seen.induction, seen.previous) == (
        pytest.approx([induction], abs=0.02),
        pytest.approx([previous], abs=0.02),
    )


def test_prompts_that_ask_for_what_was_never_seen_differ(tokenizer, monkeypatch):
    model, asked = Reads(True), []
    monkeypatch.setattr(unseen, "load_once", lambda name, device: (model, tokenizer))
    monkeypatch.setattr(model, "forward", lambda ids, use_cache: asked.append(ids) or Reads.forward(model, ids, False))
    ask = SMALL.arm("words").recipe.asker(Streams(0, [0]))
    assert all(ask(length=512, prompt=prompt)["whole"] for prompt in (0, 1))
    assert not torch.equal(*asked)


def test_all_prompts_of_heads_begin_with_the_first_token_and_say_others_twice(tokenizer, monkeypatch):
    begun, said = [], []

    def model(ids, use_cache):
        begun.append(int(ids[0, 0]))
        said.append(ids[0, 1:].tolist())

    model.device = torch.device("cpu")
    monkeypatch.setattr(unseen, "load_once", lambda name, device: (model, tokenizer))
    monkeypatch.setattr(unseen, "watched", lambda *given: nullcontext())
    ask = unseen.Heads("retriever", 2).asker(Streams(0, [0]))
    for prompt in range(2):
        ask(prompt)
    assert begun == [tokenizer.bos_token_id] * 2 == [0, 0]
    assert said[0] != said[1]
    assert all(tokens[:64] == tokens[64:] and len({*tokens}) == 64 for tokens in said)


def test_a_run_stored_when_the_default_was_a_number_is_at_defaults():
    study = from_plain(to_plain(NeedleInAHaystack()) | {"recall": 48})
    assert changed_in_words(study) == ""
    assert to_plain(study) == to_plain(NeedleInAHaystack())  # so that --resume takes it
    other = NeedleInAHaystack(model="elsewhere", layer=1, recall=48)
    assert (other.recall, other.recalled) == (48, 48)


def test_a_needle_that_the_model_cannot_read_is_refused_and_the_reason_said():
    foreign = replace(SMALL, needle=" Owls sleep by day.", question="\nWho would?", answer="owls", methods=("full",))
    said = r"needle = ' Owls sleep by day.' cannot be judged: .* a text of \d+ tokens .*\(it says ['\"]"
    with pytest.raises(ConfigError, match=said):
        measure(foreign, foreign.arm("full"), 1)
    short = replace(foreign, new_tokens=1, answer="by day and by night")
    with pytest.raises(ConfigError, match="new_tokens = 1 is too small: allowed is >= "):
        measure(short, short.arm("full"), 1)


@pytest.mark.long
def test_pictures_show_what_claims_are_about():
    """Those of methods, what was never seen, and neither for heads."""
    shown = {figure.id: {*figure.claims} for figure in SMALL.figures(TRIAL.runs)}
    assert shown["unseen"] == {id for id in (s.id for s in SMALL.statements()) if id.startswith("retrieves-")}
    assert shown["grids"] == shown["means"] > shown["kept"] == {"gemfilter-beats-snapkv", "question-kept-beats-snapkv"}
    assert not shown["unseen"] & shown["grids"]
    assert {s.id for s in SMALL.statements()} - shown["unseen"] - shown["grids"] == {"induction-heads-formed"}
