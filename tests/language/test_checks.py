"""What must hold exactly, on a model of another size than the study's. For faults see tests/studies/test_gemfilter."""

import pytest
import torch
from small_models import prompt, tiny

from featscope.language.checks import CHECKS, Case

LAYER, KEEP = 2, 20


@torch.no_grad()
def test_all_that_is_exact_holds_on_another_model():
    case = Case(tiny(), prompt(), LAYER, KEEP, new=5)
    found = {name: check(case) for name, check in CHECKS.items()}
    assert found.pop("grouping_error") == pytest.approx(0, abs=1e-5)
    assert found.pop("softmax_overlap") < 1
    assert found == {
        "identical": 1,
        "logit_difference": 0,
        "spike": 1,
        "scaled_overlap": 1,
        "cache_excess": 0,
        "position_error": 0,
        "blocks_run": LAYER,
        "projections_run": LAYER + 1,
        "one_run_overlap": 1,
    }


@pytest.mark.parametrize("name", ["position_error", "blocks_run"])
def test_a_check_that_breaks_off_leaves_nothing_on_the_model(name, monkeypatch):
    case = Case(tiny(), prompt(), LAYER, KEEP, new=5)
    modules = [case.model.model.rotary_emb, *case.model.model.layers]
    before = [[*one._forward_hooks, *one._forward_pre_hooks] for one in modules]
    monkeypatch.setattr(case.model.model.layers[0].mlp, "forward", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        CHECKS[name](case)
    assert [[*one._forward_hooks, *one._forward_pre_hooks] for one in modules] == before


def test_every_check_says_what_it_measures():
    assert all(check.__doc__ for check in CHECKS.values())
