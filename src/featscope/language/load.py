"""Loading a model and its tokenizer, by one word."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from featscope.files import kept_while_unchanged
from featscope.hub import asking_hub, without_bars
from featscope.options import ConfigError, require_extra
from featscope.system import free_memory, lacks_memory, mapped_files

RETRIEVER = "retriever"
"""The name of the small model that ships beside FeatScope, as a package of its own."""
RETRIEVER_LENGTH = 1024
"""The longest prompt, in tokens, that it was trained on."""
RETRIEVER_LAYER = 3
"""Its filter layer, found by `choose_layer`."""
RETRIEVER_KERNEL: Final = 17
RETRIEVER_POOL: Final = "max"
"""How its scores are pooled: that layer points at an answer's first token, and two words have some seven tokens."""


_ALLOWED = f"{RETRIEVER!r}, a folder with a causal language model and its tokenizer, or the name of one on the Hub"
_SAFE = "Convert them where they were made, with model.save_pretrained(folder, safe_serialization=True)."
_AGAIN = "Get the folder again, or save the model anew with save_pretrained."
_SIZES = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "vocab_size")
_MOST_LAYERS = 10_000  # far more than anybody trains; each is built before a weight is read


def load_model(name: str, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model, ready to generate, and its tokenizer. A model of text and images is one, for text.

    All weights come from safetensors files, nothing is made up for those that are missing, and the model has read a
    short prompt.

    Args:
        name: "retriever" for the small model of the package featscope-retriever, a folder, or a model of the Hub.
        device: where to.

    Raises:
        ConfigError: there is no such model or device, it is no causal language model, or it is broken.
    """
    _require_device(device)
    require_folder(name)
    with without_bars(), _place(name) as place:
        return _load(name, place, device)


def require_folder(name: str) -> None:
    """Raise `ConfigError` if ``name`` is a path that leads nowhere, or to a folder that holds no model."""
    if name == RETRIEVER:
        return
    if not os.path.isdir(name):
        is_file = os.path.isfile(name)
        if is_file or not name.isprintable() or name.startswith((".", "/", "~")) or name.count("/") > 1 or not name:
            problem = "is a file" if is_file else "is no folder"
            raise ConfigError(
                f"model = {name[:300]!r} {problem}: allowed is {RETRIEVER!r}, a folder, or a model of the Hub"
            )
        return
    found = _config_of(name)
    for size in _SIZES:
        value = found.get(size, 1)
        allowed = f"1 to {_MOST_LAYERS}" if size == "num_hidden_layers" else ">= 1"
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (value is None or (whole and value >= 1 and (size != "num_hidden_layers" or value <= _MOST_LAYERS))):
            raise _broken(name, f"its config.json has {size} = {str(value)[:60]}", f"a whole number, {allowed}")
    kept = {path.suffix for path in Path(name).iterdir()}
    if ".safetensors" not in kept:
        old = "it has weights in pickled files only" if kept & {".bin", ".pt", ".pth", ".ckpt"} else "it has no weights"
        raise _broken(name, old, "weights in safetensors files, which cannot run code", _SAFE)


def _config_of(folder: str) -> Mapping[str, Any]:
    """What config.json says."""
    try:
        found = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise _broken(folder, f"its config.json cannot be read: {error.strerror}", _ALLOWED) from None
    except (ValueError, RecursionError) as error:
        raise _broken(folder, f"its config.json is not JSON: {str(error)[:100]}", "an object") from None
    if not isinstance(found, dict):
        raise _broken(folder, f"its config.json is a {type(found).__name__}", "an object with sizes by name")
    return found


@kept_while_unchanged(1)
def load_once(name: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The same, kept in memory until another one is asked for, or its files change: for who changes nothing in it."""
    return load_model(name, device)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model that can be loaded, which is not.

    Raises:
        ConfigError: there is no such model, or it has none.
    """
    require_folder(name)
    with without_bars(), _place(name) as place, _in_words(name):
        return _tokenizer(place)


def layers_of(name: str) -> int:
    """How many layers a model that can be loaded has, by its configuration alone.

    Raises:
        ConfigError: there is no such model, or it does not say.
    """
    require_folder(name)
    with _place(name) as place, _in_words(name):
        return AutoConfig.from_pretrained(place, trust_remote_code=False).get_text_config().num_hidden_layers


@contextmanager
def _place(name: str) -> Iterator[str]:
    """What transformers knows the model by."""
    if name == RETRIEVER:
        with require_extra("The small model 'retriever'", "retriever"):
            shipped = files("featscope_retriever")
        with as_file(shipped / "weights") as folder:
            yield str(folder)
    elif os.path.isdir(name):
        yield name
    else:
        with asking_hub():
            yield name


def _tokenizer(place: str) -> Any:
    return AutoTokenizer.from_pretrained(place, padding_side="left", trust_remote_code=False)


def _require_device(device: str) -> None:
    found: torch.device | None = None
    with suppress(RuntimeError):  # torch knows no such word
        found = torch.device(device)
    if found is None or found.type not in ("cpu", "cuda"):
        raise ConfigError(f"device = {device!r} is out of range: allowed is cpu, cuda or cuda:N")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device = {device!r} is not there: allowed is a device that torch sees. Use cpu.")


def _load(name: str, place: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    with _in_words(name):
        config = AutoConfig.from_pretrained(place, trust_remote_code=False)  # first, as the Hub may be out of reach
        _require_room(name, config, device)
        tokenizer = _tokenizer(place)
        dtype = torch.float32 if device == "cpu" else "auto"
        load: Any = _kind_of(config).from_pretrained
        with mapped_files():
            model, found = load(
                place,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,  # they are named below
                output_loading_info=True,
            )
    _require_whole(name, found)
    for key, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise _broken(name, f"its weight {key} is not finite", "finite weights")
    model = model.to(device).eval()
    _require_reads(name, model, tokenizer)
    return model, tokenizer


def _kind_of(config: Any) -> Any:
    """What loads the model: one of text and images is loaded whole, and reads text."""
    whole = config.get_text_config() is not config and type(config) in AutoModelForImageTextToText._model_mapping
    return AutoModelForImageTextToText if whole else AutoModelForCausalLM


def _require_room(name: str, config: Any, device: str) -> None:
    """Refuse a model that memory cannot hold, before any of it is there."""
    if device != "cpu":
        return
    with torch.device("meta"):
        shapes = _kind_of(config).from_config(config)
    need, free = 4 * sum(weight.numel() for weight in shapes.parameters()), free_memory()
    if need > free:
        raise ConfigError(
            f"model = {name!r} is too large: by config.json it needs {need / 2**30:.1f} GiB, and "
            f"{free / 2**30:.1f} GiB are free. Take a smaller model, or a machine with more memory."
        )


def _require_whole(name: str, found: Mapping[str, Any]) -> None:
    """Refuse a model whose weights are not those that its configuration asks for; tied ones may be absent."""
    if sizes := sorted(found["mismatched_keys"]):
        key, stored, wanted = sizes[0]
        shapes = f"{key} is {list(stored)}, and {list(wanted)} by config.json"
        raise _broken(name, f"another shape in {len(sizes)} weights: {shapes}", "weights as config.json has them")
    for kind, problem in (
        ("missing_keys", "missing weights"),
        ("unexpected_keys", "weights of no layer in config.json"),
    ):
        if keys := sorted(found[kind]):
            raise _broken(name, f"{len(keys)} {problem}: {_some(keys)}", "weights as config.json has them")
    if errors := found.get("error_msgs"):
        raise _broken(name, str(errors[0])[:300], "weights as config.json has them")


def _require_reads(name: str, model: Any, tokenizer: Any) -> None:
    """Refuse a model that cannot read a short prompt, or that answers with what is no number."""
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer.vocab_size > rows:
        raise _broken(name, f"its tokenizer has {tokenizer.vocab_size} tokens, and it has {rows}", "as many in both")
    with _in_words(name), torch.no_grad():
        ids = tokenizer("A short prompt.")["input_ids"] or [0]
        logits = model(torch.tensor([ids], device=model.device)).logits
    if not torch.isfinite(logits).all():
        raise _broken(name, "it answers a short prompt with logits that are not finite", "a model that can be run")


def _some(keys: Iterable[str]) -> str:
    first, *others = keys
    return f"{first} and {len(others)} more" if others else first


def _broken(name: str, problem: str, allowed: str, cure: str = _AGAIN) -> ConfigError:
    return ConfigError(f"model = {name!r} cannot be used, {problem}: allowed is {allowed}. {cure}")


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """Turn whatever transformers, tokenizers, safetensors and the Hub's client raise at a bad model into a sentence."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if lacks_memory(error):
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        cure = f" {_SAFE}" if "safetensors" in reason else ""
        raise ConfigError(f"model = {name!r} cannot be loaded ({reason}): allowed is {_ALLOWED}.{cure}") from None
