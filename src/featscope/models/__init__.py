"""Learners, encoders, projection and prediction heads."""

from featscope.models.activations import activations
from featscope.models.attention_only import AttentionOnly, AttentionOnlyNetwork
from featscope.models.cubic_patches import CubicPatches, CubicPatchesNetwork, Online, OnlineNetwork
from featscope.models.decoder import Decoder, DecoderNetwork
from featscope.models.encoders import AlexNet, Encoder, ResNet18, WideResNet
from featscope.models.fixed_bias_relu import FixedBiasReLU, FixedBiasReLUNetwork
from featscope.models.hand_set_head import HandSetHead, HandSetNetwork
from featscope.models.heads import PredictionHead, ProjectionHead
from featscope.models.linear_self_attention import LinearSelfAttention, LowRankRegressors, attended, prompt_moment
from featscope.models.looped_attention import LoopedLinearAttention, answer, attention_mask, gradient_descent_weights
from featscope.models.planted import PlantedStart
from featscope.models.polynomial_network import Polynomial, PolynomialNetwork, cosine_network, max_margin_phases
from featscope.models.power_sequences import PowerMethod, Powers, PowerSequences
from featscope.models.prediction_head import IdentityHead, IdentityInit
from featscope.models.relu_linear_attention import ReLULinearAttention, in_dictionary
from featscope.models.symmetric_relu import OrthogonalRows, SymmetricReLU, SymmetricReLUNetwork, soft_threshold
from featscope.models.token_mlp import TokenMLP, TokenMLPNetwork
from featscope.models.truncated_relu import (
    FrozenFeatures,
    Layers,
    Pull,
    TangentModel,
    TangentStart,
    TruncatedReLUNetwork,
    UnbiasedStart,
    first_steps,
    pull,
    unbiased_start,
)

__all__ = [
    "AlexNet",
    "AttentionOnly",
    "AttentionOnlyNetwork",
    "CubicPatches",
    "CubicPatchesNetwork",
    "Decoder",
    "DecoderNetwork",
    "Encoder",
    "FixedBiasReLU",
    "FixedBiasReLUNetwork",
    "FrozenFeatures",
    "HandSetHead",
    "HandSetNetwork",
    "IdentityHead",
    "IdentityInit",
    "Layers",
    "LinearSelfAttention",
    "LoopedLinearAttention",
    "LowRankRegressors",
    "Online",
    "OnlineNetwork",
    "OrthogonalRows",
    "PlantedStart",
    "Polynomial",
    "PolynomialNetwork",
    "PowerMethod",
    "PowerSequences",
    "Powers",
    "PredictionHead",
    "ProjectionHead",
    "Pull",
    "ReLULinearAttention",
    "ResNet18",
    "SymmetricReLU",
    "SymmetricReLUNetwork",
    "TangentModel",
    "TangentStart",
    "TokenMLP",
    "TokenMLPNetwork",
    "TruncatedReLUNetwork",
    "UnbiasedStart",
    "WideResNet",
    "activations",
    "answer",
    "attended",
    "attention_mask",
    "cosine_network",
    "first_steps",
    "gradient_descent_weights",
    "in_dictionary",
    "max_margin_phases",
    "prompt_moment",
    "pull",
    "soft_threshold",
    "unbiased_start",
]
