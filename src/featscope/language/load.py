"""Loading a model and its tokenizer, by one word."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from featscope.options import ConfigError

RETRIEVER = "retriever"
"""The name of the small model that ships with FeatScope."""
RETRIEVER_LENGTH = 768
"""The longest prompt, in tokens, that it was trained on."""
RETRIEVER_LAYER = 2
"""Its filter layer, found by `choose_layer`."""


def load_model(name: str, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model, ready to generate, and its tokenizer.

    Args:
        name: "retriever" for the small model that ships with FeatScope, a folder, or a model of the Hub.
        device: where to.

    Raises:
        ConfigError: there is no such model or device, or it is no causal language model.
    """
    _require_device(device)
    if name == RETRIEVER:
        bars = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # it loads in no time
        try:
            with _place(name) as folder:
                return _load(folder, device)
        finally:
            if bars:
                logging.enable_progress_bar()
    if not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise ConfigError(f"model = {name!r} is no folder: allowed is {RETRIEVER!r}, a folder, or a model of the Hub")
    try:
        return _load(name, device)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"model = {name!r} cannot be loaded ({reason}): allowed is {RETRIEVER!r}, a folder with a causal language "
            "model and its tokenizer, or the name of one on the Hub"
        ) from None


@lru_cache(maxsize=1)
def load_once(name: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The same, kept in memory until another one is asked for: for who changes nothing in it."""
    return load_model(name, device)


def layers_of(name: str) -> int:
    """How many layers a model that can be loaded has, by its configuration alone."""
    with _place(name) as place:
        return AutoConfig.from_pretrained(place).num_hidden_layers


@contextmanager
def _place(name: str) -> Iterator[str]:
    """What transformers knows the model by."""
    if name == RETRIEVER:
        with as_file(files("featscope.language") / "retriever" / "weights") as folder:
            yield str(folder)
    else:
        yield name


def _require_device(device: str) -> None:
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device = {device!r} is unknown: allowed is cpu, cuda or cuda:N") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device = {device!r} is not there: allowed is a device that torch sees. Use cpu.")


def _load(name: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    tokenizer: Any = AutoTokenizer.from_pretrained(name, padding_side="left")
    dtype = torch.float32 if device == "cpu" else "auto"
    model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    return model.to(device).eval(), tokenizer
