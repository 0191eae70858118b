"""The step loop: objectives, optimizers, rules between steps, and the record of what was measured."""

from featscope.training.ema import EMA, MovingAverage
from featscope.training.evaluation import Evaluation
from featscope.training.experiment import DivergedError, Experiment
from featscope.training.loop import probe_steps, train
from featscope.training.objectives import Contrastive, ContrastivePairs, PredictOtherView, Supervised
from featscope.training.optimizers import SGD, TorchOptimizer
from featscope.training.pruning import MagnitudePruning, Pruner
from featscope.training.record import Measurement, Record
from featscope.training.rules import BiasSchedule, FirstTime, ProportionalBias

__all__ = [
    "EMA",
    "SGD",
    "BiasSchedule",
    "Contrastive",
    "ContrastivePairs",
    "DivergedError",
    "Evaluation",
    "Experiment",
    "FirstTime",
    "MagnitudePruning",
    "Measurement",
    "MovingAverage",
    "PredictOtherView",
    "ProportionalBias",
    "Pruner",
    "Record",
    "Supervised",
    "TorchOptimizer",
    "probe_steps",
    "train",
]
