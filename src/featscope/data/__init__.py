"""Distributions whose true features are known, and real data sets behind the same face."""

from featscope.data.dictionary import DictionaryBatch, DictionaryData, DictionarySource
from featscope.data.images import Images, ImageSample, ImageSet, ImageSource
from featscope.data.labelled_gaussians import (
    GaussianMixture,
    GaussianMixtureSource,
    LabelledBatch,
    LinearMargin,
    LinearMarginSource,
)
from featscope.data.linear_prompts import LinearPromptBatch, LinearPrompts, LinearPromptSource
from featscope.data.long_tail import LongTailedImages, LongTailedSource, class_sizes
from featscope.data.modular_addition import ModularAddition, ModularAdditionSource
from featscope.data.multi_index import MultiIndex, MultiIndexSource, RegressionSample
from featscope.data.parity_prompts import ParityBatch, ParityPrompts, ParityPromptSource
from featscope.data.patches import PatchFeatures, PatchSource, ProjectedPatches
from featscope.data.projected_noise import ProjectedInputs
from featscope.data.regression_prompts import RegressionBatch, RegressionPrompts, RegressionPromptSource
from featscope.data.shapes import draw_shapes
from featscope.data.sparse_coding import SparseCoding, SparseCodingSource, SparseSample
from featscope.data.sparse_tokens import SparseTokens, SparseTokensSource, TokenPairs
from featscope.data.spurious_features import SpuriousFeatures, SpuriousSource
from featscope.data.structured_parity import StructuredParity, StructuredParitySource
from featscope.data.task_features import TaskFeatures, TaskFeatureSource
from featscope.data.tasks import LinearTask, linear_task
from featscope.data.uniform_parity import UniformParity, UniformParitySource

__all__ = [
    "DictionaryBatch",
    "DictionaryData",
    "DictionarySource",
    "GaussianMixture",
    "GaussianMixtureSource",
    "ImageSample",
    "ImageSet",
    "ImageSource",
    "Images",
    "LabelledBatch",
    "LinearMargin",
    "LinearMarginSource",
    "LinearPromptBatch",
    "LinearPromptSource",
    "LinearPrompts",
    "LinearTask",
    "LongTailedImages",
    "LongTailedSource",
    "ModularAddition",
    "ModularAdditionSource",
    "MultiIndex",
    "MultiIndexSource",
    "ParityBatch",
    "ParityPromptSource",
    "ParityPrompts",
    "PatchFeatures",
    "PatchSource",
    "ProjectedInputs",
    "ProjectedPatches",
    "RegressionBatch",
    "RegressionPromptSource",
    "RegressionPrompts",
    "RegressionSample",
    "SparseCoding",
    "SparseCodingSource",
    "SparseSample",
    "SparseTokens",
    "SparseTokensSource",
    "SpuriousFeatures",
    "SpuriousSource",
    "StructuredParity",
    "StructuredParitySource",
    "TaskFeatureSource",
    "TaskFeatures",
    "TokenPairs",
    "UniformParity",
    "UniformParitySource",
    "class_sizes",
    "draw_shapes",
    "linear_task",
]
