"""How texts begin, and prompts of models that were trained on conversations."""

from typing import Any

from transformers import PreTrainedTokenizerBase

from featscope.options import ConfigError


def first_tokens(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The token that a text begins with, or none.

    It is the tokenizer's ``bos_token`` where the tokenizer puts it there itself, or has no chat template: that of the
    retriever puts none there, and the retriever was trained with one. Beside a template it may open somebody's turn, as
    SmolLM2's "<|im_start|>" does, and a text of no conversation has no turns.
    """
    bos: Any = tokenizer.bos_token_id
    added: Any = tokenizer("")["input_ids"]
    return [bos] if bos is not None and (not tokenizer.chat_template or bos in added) else []


def begun(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[int]:
    """Tokens of a text, with `first_tokens` in front where they are not there."""
    first = first_tokens(tokenizer)
    return ids if ids[: len(first)] == first else first + ids


def begins(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Whether a text begins with the tokenizer's first token already, in words."""
    first: Any = tokenizer.bos_token
    return bool(first) and text.startswith(first)


def going_on(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[int]:
    """Tokens of a text, without the end that some tokenizers append (``add_eos_token``): more is to come behind it."""
    end: Any = tokenizer.eos_token_id
    added: Any = tokenizer("")["input_ids"]
    appended = end is not None and added[-1:] == [end] and added != [tokenizer.bos_token_id] and ids[-1:] == [end]
    return ids[:-1] if appended else ids


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, text: str, *, special: bool = True) -> list[int]:
    """Tokens of a text that a model is to go on from: it begins as texts do (see `first_tokens`), and does not end.

    With ``special=False``, for what stands in a chat template or behind another text, no token is added; nor is one to
    a text that begins with the first one already, as a rendered conversation may.
    """
    special = special and not begins(tokenizer, text)
    ids: Any = tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]
    return begun(tokenizer, going_on(tokenizer, ids)) if special else ids


def in_template(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """What a user says, in the chat template, up to where the answer begins.

    It is tokenized with ``add_special_tokens=False``, as the template writes what stands before.

    Args:
        tokenizer: of a model that was trained on conversations.
        text: what the user says.

    Raises:
        ConfigError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ConfigError(
            f"chat = True cannot be used: the tokenizer of {tokenizer.name_or_path!r} has no chat template. Leave "
            "--chat out, and write what the model was trained on into the prompt"
        )
    said: Any = [{"role": "user", "content": text}]
    return str(tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False))
