"""Images whose classes are colours, experiments with a network and images alone, and runs with numbers by chance."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featscope.data import ImageSet, ImageSource
from featscope.studies import Runs

NAMES = ("red", "green", "blue")


class MeanColour(nn.Module):
    """An encoder with three features."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((-2, -1))


def flat(pixels: Tensor) -> Tensor:
    """Images of one colour each, ``[image, channel]``."""
    return pixels.to(torch.uint8)[:, :, None, None].expand(-1, -1, 8, 8).contiguous()


def colours(count: int, seed: int) -> ImageSet:
    """As many of each of three classes, in turn; no two are alike, and which class one is of can be seen."""
    labels = torch.arange(count) % 3
    noise = torch.randint(-10, 11, (count, 3), generator=torch.Generator().manual_seed(seed))
    return ImageSet(flat(160 + 60 * torch.eye(3)[labels] + noise), labels)


def experiment_of(learner: nn.Module, train: ImageSet, test: ImageSet) -> Any:
    """What probes look at."""
    return SimpleNamespace(learner=learner, source=ImageSource(train, test, NAMES))


def by_chance(runs: Runs, *names: str) -> Runs:
    """The same with other numbers, no two alike: after a few steps two arms name as many of a few images right."""
    draws = np.random.default_rng(0)
    return {
        arm: run.assign({name: run[name].copy(data=draws.random(run[name].shape)) for name in names if name in run})
        for arm, run in runs.items()
    }
