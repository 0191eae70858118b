"""Long-tailed selections of labelled images: few classes have most images, and most have few."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from featscope.data.encoded_images import EncodedImages, require_same_names
from featscope.data.images import ImageSet, ImageSource, Sizes, drawn
from featscope.data.shapes import SHAPES
from featscope.data.splits import open_split
from featscope.options import ConfigError, require
from featscope.streams import Draws


def class_sizes(classes: int, largest: int, ratio: float) -> list[int]:
    """The exponential profile n_k = ⌊n_max ρ^(-k/(C-1))⌋ of CIFAR10-LT and CIFAR100-LT (Cao et al. 2019).

    Args:
        classes: C, 2 or more.
        largest: images of the first class, n_max.
        ratio: ρ, the first class's size over the last's, 1 or more.

    Raises:
        ConfigError: there are fewer than two classes, the last class would have no image, or more than the first.
    """
    if classes < 2:
        raise ConfigError(f"classes = {classes} is out of range: allowed are 2 or more, a largest and a smallest.")
    if not ratio >= 1:
        raise ConfigError(f"imbalance = {ratio:g} is out of range: allowed is >= 1. The first class is the largest.")
    if largest < ratio:
        raise ConfigError(
            f"imbalance = {ratio:g} is out of range: allowed is at most {largest}, the images of the largest class, or "
            "the smallest has none. Take more images, or less imbalance."
        )
    # 5000 * 100**-1.0 is a hair below 50 on some machines.
    return [int(largest * ratio ** (-k / (classes - 1)) + 1e-9) for k in range(classes)]


class LongTailedSource(ImageSource):
    """Long-tailed training images, with balanced ones to fit read-outs to and to measure on.

    Attributes:
        head_to_tail: classes by their number of images in the long tail, the largest first; the same for the balanced
            control, where all are of one size.
    """

    _probe_pixels: Tensor
    _probe_labels: Tensor

    def __init__(
        self,
        train: ImageSet,
        probe: ImageSet,
        test: ImageSet,
        class_names: tuple[str, ...],
        head_to_tail: tuple[int, ...],
    ) -> None:
        super().__init__(train, test, class_names)
        self.head_to_tail = head_to_tail
        self.register_buffer("_probe_pixels", probe.pixels, persistent=False)
        self.register_buffer("_probe_labels", probe.labels, persistent=False)

    @property
    def probe_set(self) -> ImageSet:
        """Balanced images to fit read-outs to. Some may be among the training images, as in the papers."""
        return ImageSet(self._probe_pixels, self._probe_labels)


@dataclass(frozen=True)
class LongTailedImages(Sizes):
    """A long-tailed training set, one random selection a replica, and balanced sets for the linear probe.

    Attributes:
        source: as for `Images`: "shapes", a folder, or a data set of the Hub, such as "cifar10" or "cifar100".
        ratio: size of the largest class over that of the smallest, ρ. The classes are in the order of their labels,
            the first is the largest. None where the training split is long-tailed as it is (ImageNet-LT); read-outs
            are then fitted to the split "val", and measured on "test".
        largest: images of the largest class, n_max; 0 for as many as the smallest class of the split has. Where the
            split is long-tailed as it is: of any class at most; 0 for all.
        balanced: whether the training images, as many in all, are spread evenly over the classes: the control.
        probe: images of each class that read-outs are fitted to; 0 for as many as the smallest class has.
        test: images of each class to measure on; 0 for as many as the smallest class has.
        side: height and width that images are brought to, in pixels; 0 for images as they are.
        on_cpu: sizes that None stands for on the CPU, by the names of the options above; see `Sizes`.
    """

    source: str = "cifar10"
    ratio: float | None = 100.0
    largest: int | None = 0
    balanced: bool = False
    probe: int | None = 0
    test: int | None = 0
    side: int | None = 0
    on_cpu: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self, "source", self.source != "", "'shapes', a folder, or a data set of the Hub such as 'cifar10'")
        require(self, "ratio", self.ratio is None or self.ratio >= 1, ">= 1, or None")
        self.require_sizes("largest", "probe", "test", "side")
        require(self, "ratio", self.source != "shapes" or self.ratio is not None, "a number for 'shapes'")

    def build(self, draws: Draws) -> LongTailedSource:
        """The images of the one replica of ``draws``. The balanced control shares what images it can.

        Raises:
            ConfigError: a class has too few images, or the data cannot be read.
            MissingExtraError: the extra 'images' is not installed.
        """
        if draws.replicas != 1:
            raise ValueError(f"replicas = {draws.replicas}: allowed is 1, as a replica of images is an experiment")
        largest, probe, test, side = self.sizes(draws.device, "largest", "probe", "test", "side")
        if self.source == "shapes":
            return self._shapes(largest, probe, test, side, draws)
        train = open_split(self.source, "train", side)
        fitted = train if self.ratio is not None else open_split(self.source, "val", side)
        measured = open_split(self.source, "test", side, exactly=self.ratio is None)  # not what is fitted to
        splits = {"train": train, "val": fitted, "test": measured}
        require_same_names(self.source, {split: images.class_names for split, images in splits.items()})
        classes = len(train.class_names)
        for images in (train, fitted, measured):
            have = torch.bincount(images.labels, minlength=classes)
            if len(have) != classes or not have.all():
                of = "some are of other classes" if len(have) != classes else f"none is of class {int(have.argmin())}"
                raise ConfigError(
                    f"data = {self.source!r} is out of range: allowed are splits that have images "
                    f"of the same {classes} classes. In one of them {of}. Correct the labels."
                )
        available = torch.bincount(train.labels, minlength=classes).tolist()
        if self.ratio is None:
            tail = [min(size, largest or size) for size in available]
        else:
            tail = class_sizes(classes, largest or min(available), self.ratio)
        return LongTailedSource(
            self._choose(train, spread(sum(tail), classes) if self.balanced else tail, draws, "largest"),
            self._choose(fitted, _evenly(fitted, probe), draws, "probe"),
            self._choose(measured, _evenly(measured, test), draws, "test"),
            train.class_names,
            head_to_tail(tail),
        )

    def _choose(self, images: EncodedImages, sizes: list[int], draws: Draws, option: str) -> ImageSet:
        shuffled = draws.choice(len(images.labels), len(images.labels))[0].cpu()
        chosen = []
        for label, size in enumerate(sizes):
            of_class = shuffled[images.labels[shuffled] == label]
            name = f"class {label} ({images.class_names[label]})"
            most = f"what wants at most {len(of_class)} images of {name}, as many as "
            cure = f"{size} are wanted. Take fewer, or imbalance None for a data set that is long-tailed as it is."
            require(self, option, size <= len(of_class), f"{most}{self.source!r} has", cure)
            chosen.append(of_class[:size])
        index = torch.cat(chosen)
        return ImageSet(images.pixels(index).to(draws.device), images.labels[index].to(draws.device))

    def _shapes(self, largest: int, probe: int, test: int, side: int, draws: Draws) -> LongTailedSource:
        assert self.ratio is not None
        tail = class_sizes(len(SHAPES), largest, self.ratio)
        sizes = spread(sum(tail), len(SHAPES)) if self.balanced else tail
        train, fitted, measured = (
            drawn(sum(each), side, draws, _labels(each).to(draws.device))
            for each in (sizes, [probe] * len(SHAPES), [test] * len(SHAPES))
        )
        return LongTailedSource(train, fitted, measured, SHAPES, head_to_tail(tail))


def spread(count: int, classes: int) -> list[int]:
    """``count`` images over ``classes`` as evenly as they can be, the first classes getting what is left over."""
    return [count // classes + (label < count % classes) for label in range(classes)]


def head_to_tail(sizes: list[int]) -> tuple[int, ...]:
    """Classes by their size, the largest first; of equal ones, the lower label."""
    return tuple(sorted(range(len(sizes)), key=lambda label: -sizes[label]))


def _evenly(images: EncodedImages, wanted: int) -> list[int]:
    sizes = torch.bincount(images.labels)
    return [wanted or int(sizes.min())] * len(sizes)


def _labels(sizes: list[int]) -> Int[Tensor, " image"]:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
