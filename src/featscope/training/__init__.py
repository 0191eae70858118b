"""The engine: experiments and the loop that runs them, recipes, objectives, optimizers, rules, records."""

from featscope.training.ema import EMA, MovingAverage
from featscope.training.evaluation import Answer, Evaluation, Later, Questionnaire
from featscope.training.experiment import DivergedError, Experiment, Recipe
from featscope.training.flow import Flow
from featscope.training.gradient import (
    GradientTraining,
    LearnerConfig,
    Objective,
    ObjectiveConfig,
    OptimizerConfig,
    RuleConfig,
    SourceConfig,
    Training,
)
from featscope.training.loop import probe_steps, train
from featscope.training.objectives import Contrastive, ContrastivePairs, PredictOtherView, Ready, SignLabels, Supervised
from featscope.training.optimizers import SGD, TorchOptimizer
from featscope.training.pruning import MagnitudePruning, Pruner
from featscope.training.record import Measurement, Record, three_digits
from featscope.training.recursion import Iteration, Recursion
from featscope.training.rules import BiasSchedule, Cooling, FirstTime, ProportionalBias

__all__ = [
    "EMA",
    "SGD",
    "Answer",
    "BiasSchedule",
    "Contrastive",
    "ContrastivePairs",
    "Cooling",
    "DivergedError",
    "Evaluation",
    "Experiment",
    "FirstTime",
    "Flow",
    "GradientTraining",
    "Iteration",
    "Later",
    "LearnerConfig",
    "MagnitudePruning",
    "Measurement",
    "MovingAverage",
    "Objective",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PredictOtherView",
    "ProportionalBias",
    "Pruner",
    "Questionnaire",
    "Ready",
    "Recipe",
    "Record",
    "Recursion",
    "RuleConfig",
    "SignLabels",
    "SourceConfig",
    "Supervised",
    "TorchOptimizer",
    "Training",
    "probe_steps",
    "three_digits",
    "train",
]
