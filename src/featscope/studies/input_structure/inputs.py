"""Labelled images and what is injected beside them."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featscope.data.encoded_images import source_error
from featscope.data.image_pool import ImagePool, level
from featscope.options import require
from featscope.streams import Draws

Kind = Literal["white", "covariance", "foreign", "same"]
"""Gaussians of independent pixels, Gaussians with the images' mean and covariance, images of another data set, more of
the same images."""
_RIDGE = 1e-4


class Inputs(nn.Module):
    """One replica an entry of the first axis; pixels of unit variance and mean 0 over the images to train on.

    Each data set is on its own scale: images of another one are levelled by those of their own that are injected in
    training, all else by the labelled images. They are drawn again wherever they are built, and not saved.

    Attributes:
        x: labelled images to train on.
        y: their labels.
        tests: labelled images to judge by.
        test_labels: their labels.
        injected: what is injected in training.
        injected_tests: more of it, to judge by.
        classes: how many there are.
    """

    x: Float[Tensor, "replica image channel height width"]
    y: Int[Tensor, "replica image"]
    tests: Float[Tensor, "replica test channel height width"]
    test_labels: Int[Tensor, "replica test"]
    injected: Float[Tensor, "replica injected channel height width"]
    injected_tests: Float[Tensor, "replica test channel height width"]

    def __init__(self, classes: int, **images: Tensor) -> None:
        super().__init__()
        self.classes = classes
        for name, values in images.items():
            self.register_buffer(name, values, persistent=False)


@dataclass(frozen=True)
class Injection:
    """Labelled images of a data set and inputs that are injected beside them.

    Attributes:
        images: "digits", "shapes", a folder, or a data set of the Hub.
        foreign: images of kind "foreign", named in the same way.
        kind: what is injected.
        fraction: of training inputs that are injected, α; less where there are too few others.
        train: labelled images; half of what there is where that is fewer, or where it is 0.
        tests: of each part, to judge by; half of what there is where that is fewer, or where it is 0.
        side: in pixels; 0 for images as they are.
        grey: one channel instead of three.
        on_cpu: `train`, `tests` and `side` on the CPU where they are None; on CUDA each is 0 then.
    """

    images: str = "digits"
    foreign: str = "shapes"
    kind: Kind = "white"
    fraction: float = 0.5
    train: int | None = None
    tests: int | None = None
    side: int | None = None
    grey: bool = True
    on_cpu: tuple[int, int, int] = (2000, 1000, 8)

    def __post_init__(self) -> None:
        for name in ("images", "foreign"):
            require(self, name, getattr(self, name) != "", "'digits', 'shapes', a folder, or a data set of the Hub")
        require(self, "fraction", 0 < self.fraction <= 0.75, "above 0, 0.75 at most")
        for name in ("train", "tests", "side"):
            require(self, name, (getattr(self, name) or 0) >= 0, ">= 0")

    def build(self, draws: Draws) -> Inputs:
        """Draw a selection for each replica.

        Raises:
            ConfigError: the images cannot be had, or there are no more foreign ones than are kept to judge by.
        """
        given = zip((self.train, self.tests, self.side), self.on_cpu, strict=True)
        cpu = draws.device.type == "cpu"
        train, most_tests, side = (few * cpu if one is None else one for one, few in given)
        pool = ImagePool(self.images, "train", side)
        test_pool = ImagePool(self.images, "test", side)
        labels, test_labels = pool.labels, test_pool.labels
        n, t = self._most(len(labels), train), self._most(len(test_labels), most_tests)
        order = draws.choice(len(labels), len(labels)).cpu()
        later = draws.choice(len(test_labels), 2 * t).cpu()
        x = pool.pixels(order[:, :n], self.grey)
        mean, scale = level(x)
        x, tests = (x - mean) / scale, (test_pool.pixels(later[:, :t], self.grey) - mean) / scale
        m = round(n * self.fraction / (1 - self.fraction))
        if self.kind == "same":
            m = min(m, len(labels) - n)
            more = (pool.pixels(order[:, n : n + m], self.grey) - mean) / scale
            beside = more, (test_pool.pixels(later[:, t:], self.grey) - mean) / scale
        elif self.kind == "foreign":
            others = ImagePool(self.foreign, "train", x.shape[-1])
            there = len(others.labels)
            if there <= t:
                allowed = f"more than {t} images, of which {t} are to judge by and the others are injected"
                raise source_error(self.foreign, allowed, f"It has {there}. Set test lower.")
            m = min(m, there - t)
            more = others.pixels(draws.choice(len(others.labels), m + t).cpu(), self.grey)
            mean, scale = level(more[:, :m])
            more = (more - mean) / scale
            beside = more[:, :m], more[:, m:]
        else:
            noise = draws.normal(m + t, *x.shape[2:]).cpu()
            if self.kind == "covariance":
                noise = _coloured(noise, x)
            beside = noise[:, :m], noise[:, m:]
        found = {"x": x, "y": labels[order[:, :n]], "tests": tests, "test_labels": test_labels[later[:, :t]]}
        found |= dict(zip(("injected", "injected_tests"), beside, strict=True))
        return Inputs(pool.classes, **{name: one.to(draws.device) for name, one in found.items()})

    def _most(self, available: int, wanted: int) -> int:
        return min(available // 2, wanted or available)


def _coloured(
    noise: Float[Tensor, "replica draw c h w"], images: Float[Tensor, "replica image c h w"]
) -> Float[Tensor, "replica draw c h w"]:
    """Standard normals given the images' mean and covariance, replica by replica."""
    flat = images.flatten(2).double()
    centred = flat - flat.mean(1, keepdim=True)
    covariance = centred.mT @ centred / flat.shape[1]
    root = torch.linalg.cholesky(covariance + _RIDGE * torch.eye(flat.shape[2], dtype=torch.float64))
    made = noise.flatten(2).double() @ root.mT + flat.mean(1, keepdim=True)
    return made.float().unflatten(2, tuple(images.shape[2:]))
