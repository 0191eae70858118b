"""Ways of reading that `featscope tune-prompt` leaves out, as they cannot read the prompts."""

import pytest
import torch
from hybrid_models import hybrid
from small_models import word_tokenizer
from test_decoder import of_unknown_kind
from test_layers import text

from featscope.language import tune
from featscope.language.examples import Example
from featscope.language.tune import TunePrompt
from featscope.language.tune_results import advice
from featscope.options import ConfigError


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """What is measured of 60 words, which are read but not answered."""
    (tmp_path / "data.jsonl").touch()
    monkeypatch.setattr(tune, "timed_answer", lambda *asked, **more: (torch.tensor([5]), [1.0, 1.0]))

    def of(model, length=60, **options):
        asked = TunePrompt(tmp_path / "data.jsonl", window=4, max_new_tokens=4, kernel=5, pool="avg", **options)
        prompt = text(length, 0).replace("w5", "w6")
        found = tune.tune(
            asked, model, word_tokenizer(), [Example("w3 " * 41, ("w5",)), Example(f"w5 {prompt}", ("w5",))]
        )
        return [(way.method, way.layer) for way in found], advice(found, 0.05)

    return of


@pytest.mark.parametrize(
    ("name", "left", "said"),
    [
        ("deepseek-v3", {("full", None), ("gemfilter", 1)}, "promptdistill, layer 1, is left out: the model's cache"),
        (
            "minimax",
            {("full", None), ("gemfilter", 1)},
            "snapkv is left out: MiniMaxForCausalLM has a cache of its own",
        ),
        ("windowed-mistral", {("full", None)}, "snapkv is left out: the prompt has 62 tokens, and layer 3"),
    ],
)
def test_a_way_that_refuses_the_longest_prompt_is_left_out_before_anything_is_measured(name, left, said, tuned, capsys):
    ways, advised = tuned(hybrid(name), keeps=(0.5, 0.9), layers=() if name == "windowed-mistral" else (1,))
    assert set(ways) == left
    lines = capsys.readouterr().err
    assert lines.count(said) == 1
    assert (advised == "Full attention: there is no other way to compare it with.") == (len(left) == 1)


def test_layers_that_do_not_see_are_left_out_alone(tuned, capsys):
    ways, _ = tuned(hybrid("qwen3-next"), methods=("gemfilter",), layers=(0, 3), keeps=(0.5,))
    assert ways == [("full", None), ("gemfilter", 3)]
    assert "gemfilter, layer 0, is left out: layer = 0 of Qwen3NextForCausalLM is of kind" in capsys.readouterr().err
    ways, _ = tuned(hybrid("gemma2"), methods=("gemfilter",), layers=(2, 3), keeps=(0.5,))
    assert ways == [("full", None), ("gemfilter", 3)]
    assert "gemfilter, layer 2, is left out: the prompt has 62 tokens" in capsys.readouterr().err


def test_methods_are_left_out_where_it_is_not_known_what_layers_see(tuned, capsys):
    assert tuned(of_unknown_kind(), keeps=(0.5,))[0] == [("full", None)]
    said = capsys.readouterr().err
    for name in ("gemfilter", "promptdistill", "snapkv"):
        assert f"{name} is left out: layer 0 of FalconH1ForCausalLM is of kind hybrid" in said


def test_what_full_attention_refuses_ends_the_run(tuned, monkeypatch):
    def refuse(*given, **options):
        raise ConfigError("not this one")

    model = hybrid("gemma2")
    monkeypatch.setattr(model, "generate", refuse)
    with pytest.raises(ConfigError, match="not this one"):
        tuned(model, keeps=(0.5,))
