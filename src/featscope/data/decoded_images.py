"""Grey images that are not encoded: scikit-learn's digits, and folders of MNIST's idx files."""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from featscope.data.encoded_images import EncodedImages, source_error

BUNDLED = "digits"
"""The source of the 1,797 digits of 8 x 8 pixels that come with scikit-learn."""
_SPLITS = {"train": ("train",), "test": ("t10k", "test")}
"""How the names of their files begin, behind what a data set is called by ("emnist-letters-train")."""
_TRAINED_ON = 0.8


class DecodedImages(EncodedImages):
    """One split of grey images that are in memory; they are given out in three equal channels.

    Args:
        source: where they came from, for messages.
        images: the pixels.
        labels: class of each image.
        side: as in `EncodedImages`.
    """

    def __init__(
        self,
        source: str,
        images: UInt8[np.ndarray, "image height width"],
        labels: Int[np.ndarray, " image"],
        side: int = 0,
    ) -> None:
        self._images = images
        names = tuple(str(one) for one in range(int(labels.max(initial=0)) + 1))
        super().__init__(source, torch.from_numpy(labels.astype(np.int64)), names, self._raw, side)

    def _raw(self, i: int) -> bytes:
        return self._images[i].tobytes()

    def _decode(self, i: int) -> UInt8[Tensor, "channel height width"]:
        from PIL import Image

        return self._fitted(Image.fromarray(self._images[i]).convert("RGB"))


def bundled_digits(split: str, side: int = 0) -> DecodedImages:
    """Four fifths of scikit-learn's digits, in an order of chance, for "train"; the rest for "test".

    Raises:
        ConfigError: another split.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = np.round(found.images * 255 / 16).astype(np.uint8)
    return DecodedImages(BUNDLED, *_part(BUNDLED, pixels, found.target, split), side)


def of_idx(source: str, folder: Path, split: str, side: int = 0) -> DecodedImages:
    """The images of MNIST's files ``train-*``, ``t10k-*`` or ``test-*`` in ``folder``, compressed or not.

    Where only one pair of files is there, four fifths of it in an order of chance are "train", the rest is "test".

    Raises:
        ConfigError: files that cannot be read, of another layout, or none or several of this split.
    """
    files = {file.name.split("-images")[0]: file for file in sorted(folder.glob("*-images*idx3-ubyte*"))}
    ends = _SPLITS.get(split, (split,))
    prefixes = [prefix for prefix in files if prefix.endswith(ends)] if len(files) > 1 else [*files]
    if len(prefixes) != 1:
        allowed = f"a folder with one file {' or '.join(ends)}-images-idx3-ubyte"
        raise source_error(source, allowed, f"Found {', '.join(file.name for file in files.values())}.")
    prefix = prefixes[0]
    chosen = files[prefix]
    targets = sorted(folder.glob(f"{prefix}-labels*idx1-ubyte*"))
    if not targets:
        raise source_error(source, f"{prefix}-labels-idx1-ubyte beside {chosen.name}", "Download it, too.")
    pixels = _read(source, chosen, 3)
    labels: NDArray[np.integer] = _read(source, targets[0], 1).astype(np.int64)
    if len(pixels) != len(labels):
        raise source_error(source, "a label for each image", f"{len(pixels)} images have {len(labels)}.")
    if len(files) == 1:
        pixels, labels = _part(source, pixels, labels, split)
    return DecodedImages(source, pixels, labels, side)


def has_idx(folder: Path) -> bool:
    """Whether images in MNIST's layout are there."""
    return any(folder.glob("*-images*idx3-ubyte*"))


def _part(
    source: str, pixels: NDArray[np.uint8], labels: NDArray[np.integer], split: str
) -> tuple[NDArray[np.uint8], NDArray[np.integer]]:
    if split not in _SPLITS:
        raise source_error(source, f"a data set that has a split {split!r}", "This one has 'train' and 'test' alone.")
    order = np.random.default_rng(0).permutation(len(labels))
    end = int(_TRAINED_ON * len(labels))
    chosen = order[:end] if split == "train" else order[end:]
    return pixels[chosen], labels[chosen]


def _read(source: str, file: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of an idx file of bytes."""
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise source_error(source, "readable idx files", f"{file.name}: {error}. Download it again.") from None
    head = 4 + 4 * dimensions
    shape = np.frombuffer(raw[4:head], ">u4").astype(int) if len(raw) >= head else np.zeros(dimensions, int)
    size = prod(map(int, shape))  # which may be beyond 64 bits
    if raw[:4] != bytes([0, 0, 8, dimensions]) or not size or len(raw) != head + size:
        raise source_error(source, f"idx files of {dimensions} axes of bytes", f"{file.name} is not one.")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(tuple(shape))
