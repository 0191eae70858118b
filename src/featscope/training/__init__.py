"""The step loop: objectives, optimizers, rules between steps, and the record of what was measured."""

from featscope.training.experiment import DivergedError, Experiment
from featscope.training.loop import probe_steps, train
from featscope.training.objectives import Contrastive, ContrastivePairs, Supervised
from featscope.training.optimizers import SGD, TorchOptimizer
from featscope.training.pruning import MagnitudePruning, Pruner
from featscope.training.record import Measurement, Record
from featscope.training.rules import BiasSchedule, FirstTime, ProportionalBias

__all__ = [
    "SGD",
    "BiasSchedule",
    "Contrastive",
    "ContrastivePairs",
    "DivergedError",
    "Experiment",
    "FirstTime",
    "MagnitudePruning",
    "Measurement",
    "ProportionalBias",
    "Pruner",
    "Record",
    "Supervised",
    "TorchOptimizer",
    "probe_steps",
    "train",
]
