"""Encoders that were trained elsewhere, and what they make of images and sentences, kept on disk."""

from featscope.encoders.cache import Pictures, cached, cached_features, default_folder
from featscope.encoders.efficientnet import EfficientNetLite0
from featscope.encoders.from_hub import HubEncoder
from featscope.encoders.frozen import FrozenEncoder, embedded
from featscope.encoders.minilm import EncodesSentences, MiniLM, SentenceEncoder, cached_sentences
from featscope.encoders.sentences_from_hub import HubSentences

__all__ = [
    "EfficientNetLite0",
    "EncodesSentences",
    "FrozenEncoder",
    "HubEncoder",
    "HubSentences",
    "MiniLM",
    "Pictures",
    "SentenceEncoder",
    "cached",
    "cached_features",
    "cached_sentences",
    "default_folder",
    "embedded",
]
