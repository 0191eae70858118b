"""The Hugging Face Hub, where its clients would wait for it in vain."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 5.0  # seconds, for an answer of any kind


def _answers() -> bool:
    """Whether the Hub can be reached from here, asked once."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception:  # of many kinds, by the client's version: the network, a proxy, or "offline" in the environment
        return False
    return True


@contextmanager
def asking_hub() -> Iterator[None]:
    """Load from the Hub within it. Where the Hub is out of reach, its clients take what they have in their caches.

    Left to themselves they ask for a file six times, and half a minute goes by before they say no.
    """
    offline = [] if _answers() else list(_switches())
    before = [(module, module.HF_HUB_OFFLINE) for module in offline]
    for module in offline:
        module.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for module, was in before:
            module.HF_HUB_OFFLINE = was


@contextmanager
def without_bars() -> Iterator[None]:
    """Without the bars and the table of transformers: what the table would say is an error here."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _switches() -> Iterator[Any]:
    """Modules in which clients look whether they may use the network; they read the environment only once."""
    from huggingface_hub import constants

    yield constants
    if "datasets" in sys.modules:
        yield sys.modules["datasets"].config
