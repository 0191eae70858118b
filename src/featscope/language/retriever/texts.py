"""The texts that the retriever is trained on, their tokens, and their words."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from featscope.language.retriever.passwords import ADJECTIVES, CITIES, NOUNS

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
SPECIAL = 3
"""Tokens before those of text."""
_ESSAYS_KEPT = 6  # one in so many essays is not trained on
_WORDS_KEPT = 5  # one in so many words is never a key or value that is trained on


def read_essays(folder: Path) -> tuple[list[str], list[str]]:
    """Texts to train on, and those held out."""
    texts = [" ".join(path.read_text(encoding="utf-8-sig").split()) for path in sorted(folder.glob("*.txt"))]
    return [t for i, t in enumerate(texts) if i % _ESSAYS_KEPT], texts[::_ESSAYS_KEPT]


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of essays."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD)


def split_words(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words of needles that are trained on, and those (one in five) that are not; no word of `passwords` in either."""
    found = sorted({*re.findall(r"[A-Za-z]{3,}", " ".join(texts))} - {*CITIES, *ADJECTIVES, *NOUNS})
    order = np.random.default_rng(0).permutation(len(found))
    cut = len(found) // _WORDS_KEPT
    return [found[i] for i in order[cut:]], [found[i] for i in order[:cut]]
