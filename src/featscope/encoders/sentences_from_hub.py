"""Encoders of sentences by their names on the Hugging Face Hub: RoBERTa, SimCSE, those of sentence-transformers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from featscope.encoders.from_hub import config_of, loaded
from featscope.encoders.frozen import hash_of_weights
from featscope.options import ConfigError, require, require_extra
from featscope.streams import Draws

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MODE, _FLAG = "pooling_mode", "pooling_mode_"
_MEANS, _FIRST = "mean", "cls"
_OF_FLAGS = {"mean_tokens": _MEANS, "cls_token": _FIRST}
_POOLING = "1_Pooling/config.json"


@dataclass(frozen=True)
class HubSentences:
    """An encoder of sentences that transformers knows, by its name on the Hub or the folder that it lies in.

    Features are means over tokens where the model's pooling file says so (sentence-transformers), else what its first
    token has become, as in SimCSE. Views are made by the dropout that the model was trained with.

    Attributes:
        name: "princeton-nlp/unsup-simcse-roberta-base", "FacebookAI/roberta-base", or a folder with config.json, a
            tokenizer and model.safetensors.
        tokens: a sentence is cut after so many.
    """

    name: str
    tokens: int = 64

    def __post_init__(self) -> None:
        require(self, "name", self.name != "", "a model of the Hub, or a folder")
        require(self, "tokens", 3 <= self.tokens <= 512, "3 to 512")

    def load(self) -> "LoadedSentences":
        """The encoder.

        Raises:
            MissingExtraError: the extra 'language' is not installed.
            ConfigError: there is no such model, it encodes no sentences, some of its weights are missing, or it is not
                known how it pools.
        """
        with require_extra(f"The encoder {self.name!r}", "language"):
            from transformers import AutoTokenizer

        def beside(name: str) -> tuple[Any, set[str] | None]:
            tokenizer = AutoTokenizer.from_pretrained(name, padding_side="right")
            file = _pooling_file(name)
            return tokenizer, None if file is None else _pooled(file)

        model, (tokenizer, pooled) = loaded(self.name, beside, self._refused)
        if model.main_input_name != "input_ids" or model.config.is_encoder_decoder or not tokenizer.pad_token:
            raise self._refused("It is no encoder of sentences with a token to pad them.")
        means = pooled == {_MEANS}
        if pooled is not None and not means and pooled != {_FIRST}:
            by = ", ".join(sorted(pooled)) or "nothing that its file names"
            raise self._refused(f"It pools by {by}: known are means and the first token.")
        if not means and tokenizer("a")["input_ids"][:1] not in ([tokenizer.cls_token_id], [tokenizer.bos_token_id]):
            raise self._refused("Its sentences begin with no token for the whole, and no file says to take means.")
        if not means and not self._first_sees_last(model, tokenizer.pad_token_id):
            raise self._refused("Its first token sees no other, and it has no file that says to take means.")
        return LoadedSentences(model, tokenizer, self.tokens, means)

    def _first_sees_last(self, model: "PreTrainedModel", padding: int) -> bool:
        """Whether the first of three tokens becomes something else when the last is another one."""
        first, one, other = [token for token in range(4) if token != padding][:3]
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=()):
                rows = (torch.tensor([[first, first, last]]) for last in (one, other))
                states = [model.eval()(input_ids=row).last_hidden_state[:, 0] for row in rows]
        except Exception as error:  # of as many kinds as there are models
            raise self._refused(f"It cannot read three tokens: {str(error)[:200]}") from None
        return not torch.equal(*states)

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(
            f"sentence_encoder = {self.name[:300]!r} is out of range: allowed is an encoder of sentences that "
            f"transformers loads from safetensors, on the Hub or in a folder. {problem}"
        )


def _pooling_file(name: str) -> Path | None:
    """The pooling file of a model; none if its folder has none, or the Hub has said so now or before.

    Raises:
        FileNotFoundError: it is not in the cache, and the Hub is out of reach.
    """
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError

    folder = Path(name)
    if folder.is_dir():
        return folder / _POOLING if (folder / _POOLING).is_file() else None
    try:
        return Path(hf_hub_download(name, _POOLING))
    except RemoteEntryNotFoundError:
        return None
    except LocalEntryNotFoundError:
        if try_to_load_from_cache(name, _POOLING) is _CACHED_NO_EXIST:
            return None
        raise FileNotFoundError(
            f"whether it has a {_POOLING}, which says how to pool, is not known while the Hub is out of reach. Load it "
            "once where the Hub answers."
        ) from None


def _pooled(file: Path) -> set[str]:
    """How a pooling file of sentence-transformers says to pool: by words, or in an older one by a flag for each."""
    said = json.loads(file.read_text("utf-8"))
    if not isinstance(said, dict):
        raise ValueError(f"{_POOLING} is no mapping")
    words = said.get(_MODE) or []
    flags = [key.removeprefix(_FLAG) for key, value in said.items() if key.startswith(_FLAG) and value is True]
    return {*([words] if isinstance(words, str) else map(str, words)), *(_OF_FLAGS.get(flag, flag) for flag in flags)}


class LoadedSentences:
    """Maps sentences to features.

    Args:
        model: gives what each token has become.
        tokenizer: splits a batch of sentences and pads them on the right.
        tokens: a sentence is cut after so many.
        means: whether features are means over tokens; else they are of the first.
    """

    def __init__(self, model: "PreTrainedModel", tokenizer: Any, tokens: int, means: bool) -> None:
        self._model, self._tokenizer, self._tokens, self._means = model, tokenizer, tokens, means
        model.requires_grad_(False)
        self.features = int(model.config.hidden_size)

    @torch.no_grad()
    def __call__(self, sentences: Sequence[str], draws: Draws | None = None) -> Float[Tensor, "sentence feature"]:
        """Features of sentences; with ``draws`` of a view of each, made by dropout."""
        batch = self._tokenizer(
            list(sentences), padding=True, truncation=True, max_length=self._tokens, return_tensors="pt"
        )
        with torch.random.fork_rng(devices=()):
            if draws is not None:  # the model's own dropout knows no other generator
                torch.default_generator.manual_seed(int(draws.uniform(1, dtype=torch.float64) * 2**32))
            of_tokens: Tensor = self._model.train(draws is not None)(**batch).last_hidden_state
        if not self._means:
            return of_tokens[:, 0]
        shares = batch["attention_mask"][..., None].to(of_tokens.dtype)
        return (of_tokens * shares).sum(1) / shares.sum(1)

    def fingerprint(self) -> bytes:
        """A hash of all that features depend on besides sentences."""
        splits = self._tokenizer.backend_tokenizer
        splits.no_padding()  # both are set by each call, and not before the first
        splits.no_truncation()
        about = f"{self._tokens} {self._means} right {config_of(self._model)} {splits.to_str()}"
        state = blake2b(about.encode())
        state.update(hash_of_weights(self._model.state_dict()))
        return state.digest()
