"""Labelled images: a data set of the Hugging Face Hub, a local copy of one, or procedural shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import interpolate

from featscope.data.encoded_images import require_one_size, require_same_names, require_trained_on
from featscope.data.shapes import COLOURS, SHAPES, draw_shapes
from featscope.data.splits import open_split
from featscope.options import ConfigError, require
from featscope.streams import Draws


class ImageSample(NamedTuple):
    """A batch of images.

    Attributes:
        x: pixels in [0, 1].
        labels: class indices.
    """

    x: Float[Tensor, "replica batch channel height width"]
    labels: Int[Tensor, "replica batch"]


class ImageSet(NamedTuple):
    """Images with what is known about each.

    Attributes:
        pixels: the images.
        labels: class indices.
        colours: colour indices of procedural shapes; None for photographs.
    """

    pixels: UInt8[Tensor, "image channel height width"]
    labels: Int[Tensor, " image"]
    colours: Int[Tensor, " image"] | None = None


class Sizes:
    """Numbers of images that may depend on the device: few on the CPU, everything elsewhere.

    Options of image data derive from it. They have ``source``, and ``on_cpu``: names of sizes that may be None, with
    what None means on the CPU.
    """

    source: str
    on_cpu: Mapping[str, int]

    def require_sizes(self, *names: str) -> None:
        """Raise `ConfigError` unless the options called ``names`` are sizes; a generator has to be told how many."""
        for name in names:
            size = getattr(self, name)
            least = 1 if self.source == "shapes" and name != "side" else 0
            require(self, name, name in self.on_cpu if size is None else size >= least, f">= {least}")

    def sizes(self, device: torch.device, *names: str) -> list[int]:
        """The sizes called ``names`` on ``device``, in the same order.

        Away from the CPU None is 0, which stands for everything, or for images as they are. A generator has no
        everything: of "shapes" there are as many as on the CPU.
        """
        return [self._size(name, device.type == "cpu") for name in names]

    def _size(self, name: str, on_cpu: bool) -> int:
        given = getattr(self, name)
        if given is not None:
            return given
        few = on_cpu or (self.source == "shapes" and name != "side")
        return self.on_cpu[name] if few else 0


@dataclass(frozen=True)
class Images(Sizes):
    """Images for training and for measuring, one random selection a replica.

    Attributes:
        source: "shapes" for procedural images; a folder with the Hub's parquet files (``train-*.parquet`` and
            ``test-*.parquet``, anywhere below it); else the name of a data set on the Hub, such as "cifar10".
        train: training images; 0 for all of the data set.
        test: images to measure on; 0 for all of the data set.
        side: height and width that images are brought to, in pixels; 0 for images as they are.
        on_cpu: sizes that None stands for on the CPU, by the names of the three options above; see `Sizes`.
    """

    source: str = "cifar10"
    train: int | None = 5000
    test: int | None = 1000
    side: int | None = 0
    on_cpu: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Whether a folder exists is asked when it is read: a stored config stays valid without its data.
        require(
            self,
            "source",
            self.source != "",
            "'shapes', a folder, or a data set of the Hub such as 'cifar10'",
        )
        self.require_sizes("train", "test", "side")

    def build(self, draws: Draws) -> "ImageSource":
        """The images of the one replica of ``draws``, chosen at random from each split.

        Raises:
            ConfigError: no such folder, files of another layout, or a Hub that cannot be reached.
            MissingExtraError: the extra 'images' is not installed.
        """
        if draws.replicas != 1:
            raise ValueError(f"replicas = {draws.replicas}: allowed is 1, as a replica of images is an experiment")
        train, test, side = self.sizes(draws.device, "train", "test", "side")
        if self.source == "shapes":
            return ImageSource(drawn(train, side, draws), drawn(test, side, draws), SHAPES, COLOURS)
        chosen: list[ImageSet] = []
        class_names: tuple[str, ...] = ()
        trained_on = torch.empty(0, dtype=torch.long)
        for split, wanted in (("train", train), ("test", test)):
            images = open_split(self.source, split, side)
            if split == "train":
                trained_on = images.labels
            require_trained_on(self.source, trained_on, images.labels)
            require_same_names(self.source, {"train": class_names, split: images.class_names})
            class_names = images.class_names if split == "train" else class_names
            available = len(images.labels)
            allowed = f"at most {available}, what {self.source!r} has"
            require(self, split, wanted <= available, allowed, f"{wanted} are wanted.")
            index = draws.choice(available, wanted or available)[0].cpu()
            parts = images.pixels(index), images.labels[index]
            chosen.append(ImageSet(*(part.to(draws.device) for part in parts)))
        require_one_size(self.source, chosen[0].pixels.shape[1:], chosen[1].pixels.shape[1:])
        return ImageSource(chosen[0], chosen[1], class_names)


class ImageSource(nn.Module):
    """Holds images on the device and samples the training images without replacement within a batch.

    Its images are the data, not state: they are in no checkpoint.

    Attributes:
        class_names: name of each class.
        colour_names: name of each nuisance colour; empty for photographs.
        finite: samples are of a set that ends, so that no batch of them is fresh.
    """

    finite: ClassVar[bool] = True

    _train_pixels: UInt8[Tensor, "image channel height width"]
    _train_labels: Int[Tensor, " image"]
    _train_colours: Int[Tensor, " image"] | None
    _test_pixels: UInt8[Tensor, "image channel height width"]
    _test_labels: Int[Tensor, " image"]
    _test_colours: Int[Tensor, " image"] | None

    def __init__(
        self,
        train: ImageSet,
        test: ImageSet,
        class_names: tuple[str, ...],
        colour_names: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.class_names, self.colour_names = class_names, colour_names
        for split, images in (("train", train), ("test", test)):
            for part, values in images._asdict().items():
                self.register_buffer(f"_{split}_{part}", values, persistent=False)

    @property
    def train_set(self) -> ImageSet:
        """The images that `sample` draws from."""
        return ImageSet(self._train_pixels, self._train_labels, self._train_colours)

    @property
    def test_set(self) -> ImageSet:
        """Images that training never sees."""
        return ImageSet(self._test_pixels, self._test_labels, self._test_colours)

    def sample(self, draws: Draws, count: int) -> ImageSample:
        """``count`` distinct training images.

        Raises:
            ConfigError: there are fewer.
        """
        pixels, labels, _ = self.train_set
        if count > len(labels):
            raise ConfigError(
                f"batch = {count} is out of range: allowed is at most {len(labels)}, all images there are. Take "
                "smaller batches, or more images"
            )
        index = draws.choice(len(labels), count)[0]
        return ImageSample(as_float(pixels[index])[None], labels[index][None])


def drawn(count: int, side: int, draws: Draws, labels: Int[Tensor, " image"] | None = None) -> ImageSet:
    """``count`` procedural shapes, see `draw_shapes`, brought to ``side`` pixels if it is not 0."""
    images = ImageSet(*draw_shapes(count, draws, labels))
    if not side:
        return images
    scaled = interpolate(images.pixels.float(), (side, side), mode="bilinear", antialias=True)
    return images._replace(pixels=scaled.round().clamp(0, 255).to(images.pixels.dtype))


def as_float(pixels: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bytes to [0, 1]."""
    return pixels.float() / 255
