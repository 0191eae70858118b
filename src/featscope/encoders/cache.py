"""Features on disk, by what they were made of.

A file is named by a hash of the encoder (weights, config, how pixels enter) and of the images. So nothing in the cache
is ever out of date, and it may be deleted at any time.
"""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featscope.encoders.frozen import FrozenEncoder, embedded
from featscope.files import atomic_write, cache_folder
from featscope.numbers import as_written
from featscope.options import ConfigError
from featscope.tensors import DamagedError, packed, unpacked

_DECODED_AT_ONCE = 512


@runtime_checkable
class Pictures(Protocol):
    """Images that can be told from others before they are decoded."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def fingerprint(self) -> bytes:
        """A hash of them all, in their order."""
        ...

    def pixels(self, index: Int[Tensor, " chosen"]) -> UInt8[Tensor, "chosen 3 height width"]:
        """The images at ``index``."""
        ...


def default_folder() -> Path:
    """Where features are kept if nothing is said: ``featscope/features`` in the user's cache."""
    return cache_folder("features")


def cached_features(
    encoder: FrozenEncoder, images: Pictures, folder: Path | None = None
) -> Float[Tensor, "image feature"]:
    """What ``encoder`` makes of ``images``, in float32; computed at the first call, read at all others.

    A file appears in one step: two processes may compute the same and write it in turn, and none reads half of it. A
    damaged one is computed anew.

    Args:
        encoder: the encoder.
        images: what it is shown.
        folder: where features are kept, made if it is not there; `default_folder` if not given.

    Raises:
        ConfigError: the folder cannot be made or written to.
    """
    key = blake2b(encoder.fingerprint() + images.fingerprint(), digest_size=20).hexdigest()

    def made() -> Tensor:
        parts = torch.arange(len(images)).split(_DECODED_AT_ONCE)
        return torch.cat([embedded(encoder, images.pixels(part)) for part in parts])

    return cached(key, (len(images), encoder.features), made, folder)


def cached(key: str, shape: tuple[int, ...], made: Callable[[], Tensor], folder: Path | None = None) -> Tensor:
    """What ``made`` returns, in float32; computed at the first call, read at all others.

    Args:
        key: hexadecimal digits that name all that it depends on.
        shape: of what ``made`` returns.
        made: computes it.
        folder: see `cached_features`.

    Raises:
        ConfigError: the folder cannot be made or written to.
    """
    folder = folder or default_folder()
    file = folder / f"{key}.safetensors"
    try:
        found = unpacked(file)[0].get("features")
    except (DamagedError, OSError):
        found = None
    if found is not None and found.shape == shape:
        return found
    with as_written(torch.device("cpu")):  # within autocast, too: the file is read by all others
        features = made()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(file, packed({"features": features}, {"count": shape[0]}))
    except OSError as error:
        raise ConfigError(
            f"the cache of features {str(folder)!r} cannot be written ({error.strerror}): allowed is a folder that can "
            "be. Set XDG_CACHE_HOME to one."
        ) from None
    return features
