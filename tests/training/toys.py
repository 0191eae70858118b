"""The smallest experiment there is: one number a replica, pulled towards its target."""

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from featscope.streams import Streams
from featscope.training import SGD, GradientTraining


class Numbers(nn.Module):
    """One trained number a replica."""

    def __init__(self, replicas: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(replicas, 1))


class Targets(nn.Module):
    """Each replica's target is its own number; samples add noise to it."""

    def __init__(self, replicas) -> None:
        super().__init__()
        self.register_buffer("target", torch.tensor([[float(r)] for r in replicas]))

    def sample(self, draws, count: int):
        return SimpleNamespace(x=self.target[:, None] + draws.normal(count, 1))


def squared_distance(learner, source, draws):
    return (learner.value[:, None] - source.sample(draws, 4).x).square().mean((1, 2)) / 2


def experiment(
    replicas=range(3), rules: Mapping[str, Any] = MappingProxyType({}), lr: float = 0.5, objective=squared_distance
) -> GradientTraining:
    streams = Streams(0, replicas)
    return GradientTraining(Targets(replicas), Numbers(len(replicas)), objective, SGD(lr, 0.0), rules, streams)
