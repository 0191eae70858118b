"""The study of needles, small; and faults that change its verdicts."""

from dataclasses import replace

import jaxtyping
import pytest
import torch
from trained import by_name, trained

from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.studies.needle import NeedleInAHaystack, judge
from featscope.studies.needle import study as module

SMALL = NeedleInAHaystack(lengths=(96, 160), depths=3, prompts=1)


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def runs():
    return trained(SMALL, replicas=2)


def test_the_retriever_answers_and_not_without_the_needle(runs):
    assert runs["full"]["normalised"].mean() > 0.95
    assert runs["no-needle"]["normalised"].mean() < 0.2
    assert by_name(judge.claims(runs))["the-needle-matters", "full"].measured > 0.75


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

    monkeypatch.setattr(NeedleInAHaystack, "build_method", lambda self, model: Asks(self.method))
    trained(SMALL, "full", "gemfilter", "snapkv")
    assert len(asked["full"]) == 6
    for name in ("gemfilter", "snapkv"):
        assert all(torch.equal(a, b) for a, b in zip(asked["full"], asked[name], strict=True))


def test_a_needle_of_ones_own_is_hidden_and_asked_for(tmp_path):
    (tmp_path / "essay.txt").write_text("One day is like another. " * 30)
    own = replace(
        SMALL,
        haystack=str(tmp_path),
        needle=" In Paris amber lantern opens the gate.",
        question="\nWhich words open the gate? In Paris",
        answer="amber lantern.",
        methods=("full",),
    )
    run_ = trained(own)["full"]
    assert run_["score"].mean() > 0.5
    assert (run_["kept"] == 1).all()


def test_it_runs_and_reports(tmp_path):
    tiny = replace(SMALL, lengths=(96,), depths=2, methods=("full", "gemfilter"))
    outcome = run(tiny, Settings(replicas=2), tmp_path / "run")
    assert {claim.id for claim in outcome.claims} >= {"gemfilter-beats-full", "the-needle-matters"}
    page = report_run(tmp_path / "run", tiny).read_text()
    assert "Scores over length and depth" in page


def test_scores_without_reading_fail(monkeypatch, runs):
    monkeypatch.setattr(module, "normalised_score", lambda said, expected: 1.0)
    guessing = runs | trained(SMALL, "no-needle", replicas=2)
    assert by_name(judge.claims(guessing))["the-needle-matters", "full"].measured < 0.1


def test_methods_are_not_compared_where_nothing_is_answered(runs):
    silent = {arm: run.assign(normalised=0 * run["normalised"]) for arm, run in runs.items()}
    found = by_name(judge.claims(silent))
    assert found["the-needle-matters", "full"].verdict == "fails"
    assert {claim.verdict for claim in found.values() if claim.id != "the-needle-matters"} == {"undecided"}


def test_a_tie_is_no_gain(runs):
    equal = runs | {"gemfilter": runs["full"], "snapkv": runs["full"]}
    found = by_name(judge.claims(equal))
    for name in ("gemfilter-beats-snapkv", "gemfilter-beats-full"):
        assert found[name, "gemfilter"].verdict == "fails"
    assert found["snapkv-is-like-full", "snapkv"].verdict == "holds"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": ()}, "ascending"),
        ({"depths": 0}, ">= 1"),
        ({"methods": ()}, "some of full, gemfilter"),
        ({"methods": ("full", "full")}, "some of full"),
        ({"needle": "x"}, "together with --question and --answer"),
        ({"keep": 8}, "> window = 16"),
        ({"keep": 128}, "> keep = 128"),
        ({"model": "elsewhere"}, "choose_layer finds one"),
        ({"new_tokens": 0}, ">= 1"),
        ({"haystack": "nowhere"}, "has no text"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        NeedleInAHaystack(**options)


def test_a_length_that_does_not_hold_the_needle_is_refused():
    with pytest.raises(ConfigError, match="too short: allowed is at least"):
        trained(replace(SMALL, lengths=(20,), keep=17), "full")
