"""Frozen features of labelled images and sentences, and of a fixed number of augmented views of each."""

import os
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featscope.data.domain_images import open_domains
from featscope.data.encoded_images import require_same_names, require_trained_on
from featscope.data.file_stamps import stamp
from featscope.data.sentence_files import SENTENCE_FILES, TREC_TEST, table_rows
from featscope.data.sentence_files import labelled_lines as _lines
from featscope.data.splits import open_split
from featscope.encoders import (
    EfficientNetLite0,
    EncodesSentences,
    FrozenEncoder,
    HubEncoder,
    HubSentences,
    MiniLM,
    cached_features,
    cached_sentences,
)
from featscope.options import ConfigError
from featscope.streams import METHOD, Streams
from featscope.views.image_augmentation import Crop, CropColor

MADE_UP, EFFICIENTNET, MINILM = "made-up", "efficientnet-lite0", "minilm"
VIEWS = 10
"""Stored augmentations of each sample, the smaller of the paper's two budgets."""
_IMAGES, _TEST_IMAGES = 2000, 2000
_PHOTOS, _OTHERS, _SENTENCES, _TEST_SENTENCES = 1000, 500, 600, 1000
DOMAINS = {"photos": "photo", "sketches": "sketch", "cartoons": "cartoon"}
"""Sets of images that are domains of PACS."""
_FEW = 2  # views of sets that are pre-trained on alone
_CROPS = CropColor(Crop(0.2), 0.5)


class Samples(NamedTuple):
    """What is known of each sample; features have a mean square of 1 over the pool.

    Attributes:
        features: of the samples that may be trained on, as they are.
        views: of augmentations of each.
        labels: their classes.
        test, test_labels: samples that are never trained on.
        classes: how many classes there are.
    """

    features: Float[Tensor, "sample feature"]
    views: Float[Tensor, "sample view feature"]
    labels: Int[Tensor, " sample"]
    test: Float[Tensor, "other feature"]
    test_labels: Int[Tensor, " other"]
    classes: int


class Augmented:
    """Images in memory, or one augmentation of each.

    Args:
        images: the images.
        view: number of the augmentation; None for images as they are.
    """

    def __init__(self, images: UInt8[Tensor, "image 3 height width"], view: int | None = None) -> None:
        self._images, self._view = images, view

    def __len__(self) -> int:
        return len(self._images)

    def fingerprint(self) -> bytes:
        """A hash of the images, of how they are augmented, and of the augmentation's number."""
        about = f"{tuple(self._images.shape)} {self._view} {None if self._view is None else (_CROPS, METHOD)}"
        return blake2b(about.encode() + self._images.numpy().tobytes(), digest_size=32).digest()

    def pixels(self, index: Int[Tensor, " chosen"]) -> UInt8[Tensor, "chosen 3 height width"]:
        """The images at ``index``; an augmentation is that of the batch, which begins at a fixed image."""
        chosen = self._images[index]
        if self._view is None:
            return chosen
        draws = Streams(0, [0]).at(f"augmentation {self._view}", int(index[0]))
        made = _CROPS.augment(chosen[None].float() / 255, draws)[0]
        return (255 * made).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Data:
    """Where samples come from, and what makes features of them.

    Attributes:
        place: a folder, or "made-up".
        encoder: of images: "efficientnet-lite0", a model of the Hub or its folder.
        sentence_encoder: of sentences: "minilm", a model of the Hub or its folder.
    """

    place: str
    encoder: str = EFFICIENTNET
    sentence_encoder: str = MINILM

    def of_images(self) -> FrozenEncoder:
        """The encoder of images."""
        return EfficientNetLite0().load() if self.encoder == EFFICIENTNET else HubEncoder(self.encoder).load()

    def of_sentences(self) -> EncodesSentences:
        """The encoder of sentences."""
        name = self.sentence_encoder
        return MiniLM().load() if name == MINILM else HubSentences(name).load()


def samples_of(name: str, data: Data) -> Samples:
    """Samples of "images", one of `DOMAINS`, one of `SENTENCE_FILES` or "sst2", from the folder ``data`` or made up.

    They are looked for in the folders ``cifar10``, ``pacs``, ``sentences`` and ``sst2`` below it, and looked for again
    where these have changed. The pool is chosen once, the same for all replicas; features are computed once, then read
    from the cache.

    Raises:
        ConfigError: ``data`` cannot be read.
        MissingExtraError: what reads it, or the encoder, is not installed.
    """
    if data.place == MADE_UP:
        return made_up(name)
    place = Path(os.path.expanduser(data.place))
    below = {"images": "cifar10", "sst2": "sst2", **dict.fromkeys(DOMAINS, "pacs")}.get(name, "sentences")
    return _read(name, data, place / below, stamp(place / below, (place / below).rglob("*")))


@lru_cache(maxsize=8)
def _read(name: str, data: Data, folder: Path, _state: str) -> Samples:
    if name == "images":
        return _of_images(*_images(str(folder)), VIEWS, data.of_images())
    if name in DOMAINS:
        count = VIEWS if name == "photos" else _FEW
        return _of_images(*_photos(str(folder), DOMAINS[name]), count, data.of_images())
    return _of_sentences(*_sentences(name, folder.parent), data.of_sentences())


@lru_cache(maxsize=8)
def made_up(name: str) -> Samples:
    """Gaussian classes in 8 of 24 dimensions; in the others views are drawn anew, as spurious features are."""
    draws = Streams(0, [0]).at(f"made-up samples {name}")
    classes, pool, test = 4, 300, 300
    centres = 1.2 * draws.normal(classes, 8)[0]
    labels = (draws.uniform(pool + test)[0] * classes).long()
    meant = centres[labels] + draws.normal(pool + test, 8)[0]
    noise = 1.5 * draws.normal(pool + test, 1 + VIEWS, 16)[0]
    every = torch.cat([meant[:, None].expand(-1, 1 + VIEWS, -1), noise], -1)
    return _scaled(every[:pool, 0], every[:pool, 1:], labels[:pool], every[pool:, 0], labels[pool:], classes)


def _images(data: str) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    parts = []
    named: dict[str, tuple[str, ...]] = {}
    labels: dict[str, Tensor] = {}
    for split, wanted in (("train", _IMAGES), ("test", _TEST_IMAGES)):
        images = open_split(data, split)
        named[split], labels[split] = images.class_names, images.labels
        draws = Streams(0, [0]).at(f"pool {split}")
        index = draws.choice(len(images.labels), min(wanted, len(images.labels)))[0]
        parts += [images.pixels(index), images.labels[index]]
    require_trained_on(data, labels["train"], labels["test"])
    require_same_names(data, named)
    return parts[0], parts[1], parts[2], parts[3], max(map(len, named.values()))


def _photos(data: str, domain: str) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    images = open_domains(data)
    if domain not in images.domain_names:
        raise ConfigError(
            f"data = {data[:200]!r} is out of range: allowed is a folder of images with a domain {domain!r}. Its "
            f"domains are {', '.join(images.domain_names)[:200]}."
        )
    (index,) = torch.nonzero(images.domains == images.domain_names.index(domain), as_tuple=True)
    index = index[Streams(0, [0]).at("pool").choice(len(index), len(index))[0]]
    most = _PHOTOS if domain == "photo" else _OTHERS
    size = min(most, 2 * len(index) // 3)
    index = index[: size + most]
    pixels, labels = images.pixels(index), images.labels[index]
    return pixels[:size], labels[:size], pixels[size:], labels[size:], len(images.class_names)


def _of_images(
    pool: Tensor,
    labels: Tensor,
    test: Tensor,
    test_labels: Tensor,
    classes: int,
    count: int,
    encoder: FrozenEncoder,
) -> Samples:
    plain = cached_features(encoder, Augmented(pool))
    views = torch.stack([cached_features(encoder, Augmented(pool, view)) for view in range(count)], 1)
    return _scaled(plain, views, labels, cached_features(encoder, Augmented(test)), test_labels, classes)


def _sentences(name: str, data: Path) -> tuple[list[str], Tensor, list[str], Tensor, int]:
    """Sentences of the pool and of the test, with labels."""
    folder = data / ("sst2" if name == "sst2" else "sentences")
    try:
        if name == "sst2":
            rest = _tabled(folder / "train.tsv"), _tabled(folder / "test.tsv")
        else:
            rest = _lines(folder / SENTENCE_FILES[name]), []
            if name == "trec":
                rest = rest[0], _lines(folder / TREC_TEST)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"data = {str(data)[:200]!r} is out of range: allowed is a folder with the sentences of {name!r} "
            f"({str(error)[:200]})."
        ) from None
    train, test = rest
    order = Streams(0, [0]).at("pool").choice(len(train), len(train))[0].tolist()
    pool = [train[i] for i in order[:_SENTENCES]]
    test = test or [train[i] for i in order[_SENTENCES : _SENTENCES + _TEST_SENTENCES]]
    if strange := sorted({label for label, _ in test} - {label for label, _ in pool}):
        cure = "GLUE's test.tsv has no labels: take its dev.tsv." if name == "sst2" else "Correct the labels."
        if any(label == strange[0] for label, _ in train):
            cure = f"None of the {_SENTENCES} sentences that are drawn to train on has it: leave it out of the test."
        raise ConfigError(
            f"data = {str(data)[:200]!r} is out of range: allowed are sentences of {name!r} that are tested on with "
            f"labels that are trained on. One is {strange[0][:60]!r}. {cure}"
        )
    names = sorted({label for label, _ in pool + test})
    (x, y), (tx, ty) = (
        ([text for _, text in part], torch.tensor([names.index(label) for label, _ in part])) for part in (pool, test)
    )
    return x, y, tx, ty, len(names)


def _tabled(file: Path) -> list[tuple[str, str]]:
    """Labels and sentences of a table."""
    rows = [*table_rows(file)]
    if not rows:
        raise ValueError(f"{file.name} has no sentence")
    if lacks := sorted({"sentence", "label"} - {*rows[0]}):
        cure = "name them in its first line, and of GLUE's files take dev.tsv, as test.tsv has no labels"
        raise ValueError(f"columns of {file.name} are {', '.join(rows[0])[:60]}, and none is {lacks[0]!r}: {cure}")
    return [(row["label"].strip(), row["sentence"].strip()) for row in rows]


def _of_sentences(
    pool: list[str],
    labels: Tensor,
    test: list[str],
    test_labels: Tensor,
    classes: int,
    encoder: EncodesSentences,
) -> Samples:
    plain = cached_sentences(encoder, pool)
    views = torch.stack([cached_sentences(encoder, pool, view) for view in range(VIEWS)], 1)
    return _scaled(plain, views, labels, cached_sentences(encoder, test), test_labels, classes)


def _scaled(plain: Tensor, views: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor, classes: int) -> Samples:
    size = plain.square().mean().sqrt()
    return Samples(plain / size, views / size, labels, test / size, test_labels, classes)
