"""LongBench at a size that takes seconds: a language model of random weights, and files in LongBench's layout."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 4096


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and one that begins a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


@cache
def saved_model() -> str:
    """A folder with two random layers and a tokenizer of bytes."""
    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.5,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    folder = Path(mkdtemp()) / "tiny"
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def line(task: str, **changes: Any) -> dict[str, Any]:
    """An example as LongBench writes it."""
    answers = {"passage_count": ["3"], "passage_retrieval_en": ["Paragraph 2"], "trec": ["Date"]}
    return {
        "input": "Who came?",
        "context": "The old captain came on Monday.",
        "answers": answers.get(task, ["the captain"]),
        "length": 9,
        "dataset": task,
        "language": "en",
        "all_classes": ["Date", "City"] if task == "trec" else None,
        "_id": "0123",
    } | changes


def write(folder: Path, tasks: Mapping[str, int], lines: Sequence[dict[str, Any]] = ()) -> Path:
    """Files of ``tasks``, with so many examples each, or ``lines`` in all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, count in tasks.items():
        made = lines or [line(task, input=f"Who came on day {i}?") for i in range(count)]
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    return folder
