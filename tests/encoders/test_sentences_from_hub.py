"""Encoders of sentences in the Hub's layout: features against the model's, views by dropout, what is refused."""

import json

import pytest
import torch

from featscope.encoders import HubSentences, cached_sentences
from featscope.options import ConfigError
from featscope.streams import Streams

transformers = pytest.importorskip("transformers", reason="encoders of the Hub were not tried: no extra 'language'")
SENTENCES = ["a b c", "b", "c a", "a a b c"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **sizes)).eval()


@pytest.fixture
def folder(model, tmp_path):
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    return tmp_path


def said(model, sentence: str) -> torch.Tensor:
    """What each token of a sentence has become, of the sentence alone."""
    tokens = torch.tensor([[2, *(WORDS.index(word) for word in sentence.split()), 3]])
    with torch.no_grad():
        return model(input_ids=tokens).last_hidden_state[0]


def test_features_are_of_the_first_token(folder, model):
    encoder = HubSentences(str(folder)).load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one)[0] for one in SENTENCES]))
    assert encoder.features == 16


TODAY = {"embedding_dimension": 16, "include_prompt": True}
"""What a pooling file says besides."""


@pytest.mark.parametrize(
    ("means", "first"),
    [
        ({"pooling_mode_mean_tokens": True}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
        ({"pooling_mode": "mean"}, {"pooling_mode": "cls"}),
        ({"pooling_mode": ["mean"]}, {"pooling_mode": ["cls"]}),
    ],
)
def test_features_are_means_where_the_model_says_so(folder, model, means, first):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(means | TODAY))
    encoder = HubSentences(str(folder)).load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one).mean(0) for one in SENTENCES]))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(first | TODAY))
    other = HubSentences(str(folder)).load()
    torch.testing.assert_close(other(SENTENCES), torch.stack([said(model, one)[0] for one in SENTENCES]))
    assert other.fingerprint() != encoder.fingerprint()


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_lasttoken": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": False},
        {"pooling_mode": "max"},
        {"pooling_mode": ["mean", "cls"]},
        {"pooling_mode": []},
        {"pooling_mode": [None]},
        {},
    ],
)
def test_other_poolings_are_refused(folder, pooling):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling | TODAY))
    with pytest.raises(ConfigError, match="known are means and the first token"):
        HubSentences(str(folder)).load()


@pytest.mark.parametrize("pooling", ["", "{", "[]", '"mean"', '{"pooling_mode": 1}', "\udcff"])
def test_a_pooling_file_that_is_none_is_refused(folder, pooling):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(pooling, errors="surrogateescape")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        HubSentences(str(folder)).load()


def test_the_first_token_of_a_causal_model_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"is_decoder": True}))
    with pytest.raises(ConfigError, match="first token sees no other"):
        HubSentences(str(folder)).load()


def test_views_are_of_their_draws(folder, tmp_path, monkeypatch):
    encoder, at = HubSentences(str(folder)).load(), Streams(0, [0]).at
    state = torch.random.get_rng_state()
    one, again, other = (encoder(SENTENCES, at(name)) for name in ("one", "one", "other"))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, encoder(SENTENCES))
    assert torch.equal(state, torch.random.get_rng_state()), "a generator that all share was touched"
    monkeypatch.setattr(torch, "manual_seed", lambda _: pytest.fail("generators of other devices were touched"))
    assert torch.equal(one, encoder(SENTENCES, at("one")))
    views = [encoder(SENTENCES[:1], at("many", step)) for step in range(40)]
    assert len({view.numpy().tobytes() for view in views}) == 40
    kept = cached_sentences(encoder, SENTENCES, 3, tmp_path / "kept")
    assert torch.equal(kept, cached_sentences(encoder, SENTENCES, 3, tmp_path / "kept"))


def test_a_long_sentence_is_cut(folder, model):
    encoder = HubSentences(str(folder), tokens=4).load()
    torch.testing.assert_close(encoder(["a b c c c"])[0], said(model, "a b")[0])


def test_weights_that_are_missing_are_not_made_up(folder, model):
    transformers.BertConfig(**model.config.to_dict() | {"num_hidden_layers": 3}).save_pretrained(folder)
    with pytest.raises(ConfigError, match="weights are missing"):
        HubSentences(str(folder)).load()


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder", "."])
def test_what_is_not_there_is_named(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        HubSentences(name).load()


def test_what_encodes_no_sentences_is_refused(folder, small_resnet):
    with pytest.raises(ConfigError, match=r"cannot be loaded|no encoder of sentences"):
        HubSentences(small_resnet).load()
