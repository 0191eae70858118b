"""A language model of a few thousand random weights with its tokenizer, saved once for all tests of a process."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.language.in_context import Examples, load_examples, made_up_irrelevant, made_up_sentiment
from featscope.streams import Streams

CONTEXT = 1024


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level pairs of made-up sentences; one label word is one token, the other several. Begins with <s>."""
    streams = Streams(0, [0])
    texts = [f"sentence: {text}\nThe answer is" for text, _ in made_up_sentiment(streams.at("texts"), 200)]
    texts += made_up_irrelevant(streams.at("others"), 200)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *[" positive."] * 50], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", padding_side="left"
    )


def tiny_llama(seed: int = 0, width: int = 16, layers: int = 2) -> LlamaForCausalLM:
    """Random weights, large enough that attention is not uniform."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.5,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@cache
def saved(name: str = "tiny", seed: int = 0, width: int = 16) -> str:
    """A folder called ``name`` with model and tokenizer."""
    folder = Path(mkdtemp()) / name
    tiny_llama(seed, width).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@cache
def _examples(task: str, source: str, seed: int, replicas: tuple[int, ...]) -> Examples:
    return load_examples(task, source, Streams(seed, replicas))


def remembered_examples(task: str, source: str, streams: Streams) -> Examples:
    """What `load_examples` gives, made once for all arms and faults."""
    return _examples(task, source, streams.seed, streams.replicas)
