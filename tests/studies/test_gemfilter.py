"""The study GemFilter, small; and faults that change its verdicts."""

import re
from dataclasses import replace
from functools import partial

import jaxtyping
import pytest
import torch
from trained import by_name, trained

from featscope.language import eviction, gemfilter
from featscope.language.prompt import Prompt
from featscope.language.selection import last_row_scores, select
from featscope.options import ConfigError
from featscope.report.run_report import report_run
from featscope.runs import Settings, run
from featscope.studies.gemfilter import GemFilterStudy, cost, judge, mechanics, retrieval
from featscope.studies.gemfilter.statements import STATEMENTS

SMALL = GemFilterStudy(lengths=(96, 128), prompts=2, keeps=(32, 64), cost_lengths=(300, 400), trained=128)
EXACT = [
    "keep-all-is-identity",
    "keep-all-same-logits",
    "grouped-query-identity",
    "lone-spike",
    "scale-invariance",
    "cache-length-is-keep",
    "positions-are-compact",
    "layers-run",
    "projections-run",
    "one-run-equal-selection",
]


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def runs():
    return trained(SMALL, replicas=2)


def judged(runs):
    return by_name(judge.claims(SMALL, runs))


def exact(runs):
    return by_name(judge._mechanics(runs["mechanics"]))


def test_what_is_exact_holds(runs):
    found = judged(runs)
    assert {name: found[name, "mechanics"].verdict for name in EXACT} == dict.fromkeys(EXACT, "holds")
    assert found["softmax-keeps-the-choice", "mechanics"].measured < 0.9


def test_costs_follow_the_formulas(runs):
    found = judged(runs)
    for name in ("operations-by-formula", "prompt-cost-ratio", "memory-model", "generation-cost"):
        assert found[name, "cost"].verdict == "holds", found[name, "cost"]
    assert found["printed-memory", "cost"].verdict == "fails"


def test_every_statement_is_judged(runs):
    far = replace(SMALL, trained=100)
    assert {claim.id for claim in judge.claims(far, runs)} == {statement.id for statement in STATEMENTS}


def test_random_weights_do_not_find_needles(runs):
    found = judged(runs)
    assert (
        found["early-layer-finds-needle", "untrained"].measured
        < found["early-layer-finds-needle", "retrieval"].measured
    )
    assert found["full-attention-retrieves", "retrieval"].measured > 0.9


def test_it_runs_reports_and_resumes(tmp_path):
    tiny = replace(SMALL, lengths=(96,), prompts=1, keeps=(32,), cost_lengths=(300,))
    outcome = run(tiny, Settings(replicas=2), tmp_path / "run")
    page = report_run(tmp_path / "run", tiny).read_text()
    assert "What a prompt costs" in page
    assert re.search(r"Reading 300 tokens took GemFilter \d\.\d+", page)
    again = run(tiny, Settings(replicas=2), tmp_path / "run", resume=True)
    exact_again = [claim for claim in again.claims if claim.arm != "cost"]
    assert exact_again == [claim for claim in outcome.claims if claim.arm != "cost"]


def faulty(monkeypatch, target, name, value) -> set[str]:
    """Claims on what is exact that do not hold with the fault."""
    monkeypatch.setattr(target, name, value)
    found = exact(trained(SMALL, "mechanics", replicas=2))
    return {name for name in EXACT if found[name, "mechanics"].verdict != "holds"}


def test_a_lost_token_breaks_the_identity(monkeypatch):
    broken = faulty(monkeypatch, gemfilter, "select", lambda *a, **k: select(*a, **k)[:, 1:])
    assert {"keep-all-same-logits", "cache-length-is-keep"} <= broken


def test_heads_of_other_groups_break_the_identity_of_groups(monkeypatch):
    wrong = lambda query, heads: query.unflatten(1, (-1, heads)).sum(1)  # noqa: E731
    assert "grouped-query-identity" in faulty(monkeypatch, mechanics, "summed_queries", wrong)


def test_another_kernel_breaks_the_spike(monkeypatch):
    assert faulty(monkeypatch, mechanics, "select", partial(select, kernel=3)) >= {"lone-spike"}


def test_attention_weights_break_the_scale(monkeypatch):
    weighted = lambda query, key: (key @ query[..., None])[..., 0].softmax(-1).sum(1)  # noqa: E731
    assert "scale-invariance" in faulty(monkeypatch, mechanics, "scores", weighted)


def test_a_deeper_pass_is_seen(monkeypatch):
    deeper = type("Deeper", (gemfilter._Until,), {"__init__": lambda self, layer: setattr(self, "layer", layer + 1)})
    assert faulty(monkeypatch, gemfilter, "_Until", deeper) >= {"layers-run", "projections-run"}


def test_a_second_pass_on_everything_is_seen(monkeypatch):
    assert "cache-length-is-keep" in faulty(monkeypatch, Prompt, "take", lambda self, kept, padding: self)


def test_old_positions_are_seen(monkeypatch):
    from featscope.language.method import FullCache

    def shifted(self, input_ids, attention_mask=None, **options):
        positions = 7 + torch.arange(input_ids.shape[1])[None]
        return self.model.generate(input_ids, attention_mask=attention_mask, position_ids=positions, **options)

    broken = faulty(monkeypatch, FullCache, "generate", shifted)
    assert "positions-are-compact" in broken


def test_another_choice_of_one_run_is_seen(monkeypatch):
    negative = lambda query, key: -last_row_scores(query, key)  # noqa: E731
    assert faulty(monkeypatch, eviction, "last_row_scores", negative) == {"one-run-equal-selection"}


def test_a_pass_through_all_layers_is_seen(monkeypatch):
    choose = gemfilter.GemFilter.select

    def slow(self, input_ids, attention_mask=None):
        self.model(input_ids, use_cache=True)
        return choose(self, input_ids, attention_mask)

    monkeypatch.setattr(cost.GemFilter, "select", slow)
    found = by_name(judge._cost(trained(replace(SMALL, cost_lengths=(300,)), "cost", replicas=2)["cost"]))
    broken = {name for (name, _), claim in found.items() if claim.verdict == "fails"}
    assert {"operations-by-formula", "prompt-cost-ratio", "memory-model"} <= broken


def test_a_choice_that_does_not_look_is_seen(monkeypatch, runs):
    first = lambda model, prompt, keep: dict.fromkeys(range(4), torch.arange(8)[None])  # noqa: E731
    monkeypatch.setattr(retrieval, "choices_of_all_layers", first)
    blind = runs | trained(SMALL, "retrieval", replicas=2)
    found = judged(blind)
    assert found["early-layer-finds-needle", "retrieval"].measured < 0.5
    assert found["first-layer-does-not", "retrieval"].measured == 0
    assert judged(runs)["early-layer-finds-needle", "retrieval"].measured > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": (128, 96)}, "ascending"),
        ({"lengths": (32,)}, ">= 64"),
        ({"trained": 90, "lengths": (96,)}, ">= 96"),
        ({"keep": 16}, "> window = 16"),
        ({"keep": 128}, "> keep = 128"),
        ({"model": "elsewhere"}, "choose_layer finds one"),
        ({"cost_lengths": (200,)}, "> 256"),
        ({"haystack": "nowhere"}, "has no text"),
        ({"prompts": 0}, ">= 1"),
    ],
)
def test_wrong_options_say_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        GemFilterStudy(**options)


def test_a_layer_that_the_model_does_not_have_is_refused():
    with pytest.raises(ConfigError, match="0 to 3, the model's layers"):
        trained(replace(SMALL, layer=4), "retrieval")
