"""Encoders of sentences in the Hub's layout: features against the model's, views by dropout, what is refused."""

import json
import shutil

import pytest
import torch

from featscope import hub
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


@pytest.fixture
def in_the_cache(folder, tmp_path_factory, monkeypatch):
    """The model as the cache of the Hub has it, which is out of reach."""
    from huggingface_hub import constants

    cache, commit = tmp_path_factory.mktemp("cache"), 40 * "a"
    of_model = cache / "models--some--encoder"
    shutil.copytree(folder, of_model / "snapshots" / commit)
    (of_model / "refs").mkdir()
    (of_model / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub, "_answers", lambda: False)
    return of_model


def pooled_in(folder, text: str) -> None:
    """Write a pooling file."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling" / "config.json").write_text(text)


def test_a_pooling_file_that_is_not_in_the_cache_may_be_there(in_the_cache, model):
    with pytest.raises(ConfigError, match=r"a 1_Pooling/config\.json, which says how to pool, is not known while the"):
        HubSentences("some/encoder").load()
    pooled_in(in_the_cache / "snapshots" / (40 * "a"), json.dumps({"pooling_mode": "mean"}))
    encoder = HubSentences("some/encoder").load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one).mean(0) for one in SENTENCES]))


def test_a_pooling_file_is_absent_where_the_hub_once_said_so(in_the_cache, model):
    pooled_in(in_the_cache / ".no_exist" / (40 * "a"), "")
    encoder = HubSentences("some/encoder").load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one)[0] for one in SENTENCES]))


def test_a_pooling_file_is_absent_where_the_hub_says_so_now(in_the_cache, model, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import RemoteEntryNotFoundError

    def answer(*_):
        raise RemoteEntryNotFoundError.__new__(RemoteEntryNotFoundError)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", answer)
    encoder = HubSentences("some/encoder").load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one)[0] for one in SENTENCES]))


def test_features_are_of_no_padding_where_a_tokenizer_pads_on_the_left(folder, model):
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), padding_side="left").save_pretrained(folder)
    encoder = HubSentences(str(folder)).load()
    torch.testing.assert_close(encoder(SENTENCES), torch.stack([said(model, one)[0] for one in SENTENCES]))


def test_a_first_token_that_is_the_sentence_s_own_is_refused(folder):
    words = transformers.BertTokenizerFast(str(folder / "vocab.txt")).backend_tokenizer
    words.post_processor = None  # which puts [CLS] first
    named = {"pad_token": "[PAD]", "cls_token": "[CLS]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **named).save_pretrained(folder)
    with pytest.raises(ConfigError, match="begin with no token for the whole"):
        HubSentences(str(folder)).load()


def test_a_fingerprint_stays_when_sentences_are_read(folder):
    encoder = HubSentences(str(folder)).load()
    known = encoder.fingerprint()
    features = encoder(SENTENCES)
    assert encoder.fingerprint() == known
    assert torch.equal(encoder(SENTENCES), features), "what a call sets was lost"


def test_a_layer_that_is_not_used_and_came_without_weights_changes_no_fingerprint(folder, model):
    transformers.BertModel(model.config, add_pooling_layer=False).save_pretrained(folder)
    assert HubSentences(str(folder)).load().fingerprint() == HubSentences(str(folder)).load().fingerprint()


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
