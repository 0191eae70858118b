"""The retriever as a network: its shapes, its losses, and how often it answers."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.language.retriever.prompts import Batch, Prompts, together
from featscope.language.retriever.recipe import TrainingPlan


def build(recipe: TrainingPlan, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The network before its first step."""
    torch.manual_seed(recipe.seed)
    config = LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.width,
        intermediate_size=4 * recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads // 2,
        max_position_embeddings=recipe.context,
        # At the default, 0.02, attention begins uniform and takes long to leave it.
        initializer_range=recipe.width**-0.5,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # on a CPU its backward pass is faster at these lengths
    return model


def losses(model: LlamaForCausalLM, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Mean loss of the words of answers, and of all tokens."""
    tokens, answers = batch
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(tokens).logits[:, :-1]
    each = cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return each[answers[:, 1:].flatten()].mean(), each.mean()


@torch.no_grad()
def accuracy(model: LlamaForCausalLM, prompts: Prompts, length: int, count: int = 200, needles: int = 4) -> float:
    """Share of prompts with one question out of ``needles`` whose answer the model gives word for word."""
    model.eval()
    right = 0
    for first in range(0, count, 20):
        rng = np.random.default_rng([1, length, first])
        ids, marks = together([prompts.sequence(rng, length, needles, 1) for _ in range(20)])
        guess = model(ids).logits[:, :-1].argmax(-1)
        right += int(((guess == ids[:, 1:]) | ~marks[:, 1:]).all(1).sum())
    model.train()
    return right / count
