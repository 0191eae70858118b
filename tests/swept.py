"""A study that trains in milliseconds, for sweeps: numbers that are pulled towards a target."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from featscope.catalogue import Entry
from featscope.options import require
from featscope.studies import Arm, Study
from featscope.training import SGD, FirstTime, Measurement, Training
from featscope.training.objectives import Ready

ENTRY = Entry("pull", "nobody", "Numbers are pulled towards a target.", 0.01, "swept:Pull")


def installed(folder: Path) -> dict[str, str]:
    """The environment in which `featscope` knows the study, by a package's metadata in ``folder``."""
    about = folder / "swept-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: swept\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[featscope.studies]\npull = swept:ENTRY\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parent)])}


@dataclass(frozen=True)
class Noisy:
    """Samples around a target.

    Attributes:
        target: their mean.
        noise: their standard deviation.
    """

    target: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        require(self, "noise", self.noise >= 0, ">= 0")

    def build(self, draws) -> "Source":
        return Source(self, draws.replicas)


class Source(nn.Module):
    def __init__(self, config: Noisy, replicas: int) -> None:
        super().__init__()
        self.register_buffer("target", torch.full((replicas,), config.target))
        self.register_buffer("noise", torch.full((replicas,), config.noise))

    def sample(self, draws, count: int):
        return self.target[:, None] + self.noise[:, None] * draws.normal(count)


class Learner(nn.Module):
    def __init__(self, value) -> None:
        super().__init__()
        self.value = nn.Parameter(value)


@dataclass(frozen=True)
class Values:
    """Random numbers.

    Attributes:
        width: numbers a replica.
    """

    width: int = 2

    def build(self, source, draws) -> Learner:
        return Learner(draws.normal(self.width))


@dataclass(frozen=True)
class Squares(Ready):
    """Mean squared distance to samples, halved."""

    def __call__(self, learner, source, draws):
        return (learner.value[:, None] - source.sample(draws, 8)[..., None]).square().mean(1).sum(-1) / 2


def is_near(experiment):
    return (experiment.learner.value.mean(-1) - experiment.source.target).abs() < 0.2


@dataclass(frozen=True)
class Pull(Study):
    """Numbers are pulled towards a target.

    Attributes:
        data: where to.
        width: numbers a replica.
        optimizer: how fast.
        signals: folder in which each worker leaves its process id, and then waits for a file "go".
    """

    name = "pull"
    default_replicas = 3

    data: Noisy = field(default_factory=Noisy)
    width: int = 2
    optimizer: SGD = field(default_factory=lambda: SGD(0.1, 0.01))
    steps: int = 12
    probe_every: int = 4
    signals: str = ""

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")

    @property
    def recipe(self) -> Training:
        """What both arms train."""
        near = {"near": FirstTime("near", is_near, 1)}
        return Training(self.data, Values(self.width), Squares(), self.optimizer, near, self.steps, self.probe_every)

    def arms(self) -> Sequence[Arm]:
        about = "as the options say"
        return [
            Arm("pulled", self.recipe, about, at_start=(start,), at_end=(end,)),
            Arm("other", self.recipe, about, role="control"),
        ]

    def watch(self, experiment):
        if self.signals:
            wait(Path(self.signals))
        value, target = experiment.learner.value, experiment.source.target
        return {
            "distance": Measurement((value - target[:, None]).abs().mean(-1), "how far it is", units="m"),
            "above": Measurement((value > target[:, None]).sum(-1), "numbers above the target", units="numbers"),
            "values": Measurement(value, "where the numbers are", ("number",), "m"),
        }


def wait(signals: Path) -> None:
    (signals / str(os.getpid())).touch()
    while not (signals / "go").exists():
        time.sleep(0.02)


def start(experiment):
    return {"at_first": Measurement(experiment.learner.value[:, 0], "where the first began", units="m")}


def end(experiment):
    test = experiment.source.sample(experiment.streams.at("test"), 100)
    error = (experiment.learner.value.mean(-1) - test.mean(-1)).square()
    return {"error": Measurement(error, "test error", units="m²")}
