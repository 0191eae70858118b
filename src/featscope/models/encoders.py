"""Convolutional encoders for small images: plain PyTorch modules on ``[batch, channel, height, width]``.

None normalises over the batch. Batch statistics would let one image's features depend on the others in its
batch: contrastive training can use that to recognise pairs, firing densities would depend on the company, and
measuring would move the running averages. AlexNet has no normalisation at all, so its neurons can fall silent
or fire always, which is what is measured; the ResNets normalise within each image (GroupNorm).

All say in ``layers`` which submodules are their layers' ReLUs, lowest first; `activations` reads them.
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import gcd, sqrt
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import max_pool2d
from torch.nn.utils import skip_init

from featscope.kernels import suits
from featscope.options import require
from featscope.streams import Draws

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class AlexNet:
    """Five convolutions and no dense layer: AlexNet (Krizhevsky et al. 2012) for 32 x 32 pixels.

    Channels are in the proportion 1:2:3:2:2, as in the original (about). The first layer has 5 x 5 filters
    and stride 2, the others 3 x 3; max pooling follows the first two. The features are the last layer's
    channels, averaged over the image.

    Attributes:
        width: filters in the first layer.
    """

    width: int = 32

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")

    def build(self, source: Any, draws: Draws) -> "Encoder":
        """A network with He-normal weights and zero biases, whatever ``source`` is."""
        channels = [3, *(self.width * factor for factor in (1, 2, 3, 2, 2))]
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        for layer in range(1, 6):
            size, stride = (5, 2) if layer == 1 else (3, 1)
            stages[f"conv{layer}"] = skip_init(nn.Conv2d, channels[layer - 1], channels[layer], size, stride, size // 2)
            stages[f"relu{layer}"] = nn.ReLU()
            if layer <= 2:
                stages[f"pool{layer}"] = _MaxPool()
        layers = tuple(f"body.relu{layer}" for layer in range(1, 6))
        return initialise(Encoder(nn.Sequential(stages), channels[-1], layers, "body.conv1"), draws)


@dataclass(frozen=True)
class WideResNet:
    """Wide-ResNet (Zagoruyko & Komodakis 2016) with GroupNorm in place of BatchNorm.

    Its layers, for what is measured a layer, are the first convolution's ReLU and the last ReLU of each of
    the three groups of blocks.

    Attributes:
        depth: number of convolutions, 6 n + 4. The paper's network is 34 deep and 5 wide.
        widen: factor on 16, 32 and 64 channels.
    """

    depth: int = 34
    widen: int = 5

    def __post_init__(self) -> None:
        require(
            self,
            "depth",
            self.depth >= 10 and self.depth % 6 == 4,
            "6 n + 4 with n >= 1: 10, 16, 22, 28, 34, ...",
        )
        require(self, "widen", self.widen >= 1, ">= 1")

    def build(self, source: Any, draws: Draws) -> "Encoder":
        """A network with He-normal weights and zero biases, whatever ``source`` is."""
        blocks = (self.depth - 4) // 6
        body = nn.Sequential(OrderedDict(conv1=skip_init(nn.Conv2d, 3, 16, 3, padding=1)))
        inside = 16
        for group, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
            for block in range(blocks):
                outside = channels * self.widen
                body.add_module(f"block{group}_{block}", _Block(inside, outside, stride if block == 0 else 1))
                inside = outside
        body.add_module("norm", _norm(inside))
        body.add_module("relu", nn.ReLU())
        ends = [f"body.block{group}_{blocks - 1}.relu2" for group in (1, 2)]
        layers = ("body.block1_0.relu1", *ends, "body.relu")
        return initialise(Encoder(body, inside, layers, "body.conv1"), draws)


@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 (He et al. 2016) for 32 x 32 pixels, with GroupNorm in place of BatchNorm.

    As is usual at this size, the stem is a 3 x 3 convolution with stride 1 and no pooling follows it (Chen et al.
    2020, Appendix B.9). Its layers, for what is measured a layer, are the stem's ReLU and the last ReLU of each of the
    four groups of blocks.

    Attributes:
        width: channels of the stem; the groups have 1, 2, 4 and 8 times as many. The original is 64 wide.
    """

    width: int = 64

    def __post_init__(self) -> None:
        require(self, "width", self.width >= 1, ">= 1")

    def build(self, source: Any, draws: Draws) -> "Encoder":
        """A network with He-normal weights and zero biases, whatever ``source`` is."""
        stem = OrderedDict(conv1=skip_init(nn.Conv2d, 3, self.width, 3, padding=1, bias=False), norm=_norm(self.width))
        body = nn.Sequential(stem | {"relu": nn.ReLU()})
        inside = self.width
        for group in range(4):
            outside = self.width * 2**group
            for block, stride in enumerate((1 if group == 0 else 2, 1)):
                body.add_module(f"block{group + 1}_{block}", _BasicBlock(inside, outside, stride))
                inside = outside
        layers = ("body.relu", *(f"body.block{group}_1.relu2" for group in (1, 2, 3, 4)))
        return initialise(Encoder(body, inside, layers, "body.conv1"), draws)


class Encoder(nn.Module):
    """A convolutional body, its output averaged over the image.

    Args:
        body: maps images to feature maps.
        features: channels of the feature maps.
        layers: names of the submodules whose outputs are the layers' activations, lowest first.
        filters: name of the first convolution.
    """

    def __init__(self, body: nn.Module, features: int, layers: tuple[str, ...], filters: str) -> None:
        super().__init__()
        self.body, self.features, self.layers = body, features, layers
        self._filters = filters

    @property
    def filters(self) -> Float[Tensor, "filter channel height width"]:
        """Weights of the first convolution, as they are (not a copy)."""
        return self.get_parameter(f"{self._filters}.weight")

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of images with pixels in [0, 1]; they are scaled to about unit variance first."""
        return self.body((x - 0.5) * 4).mean((-2, -1))


class _Block(nn.Module):
    """Two 3 x 3 convolutions, each after a norm and a ReLU, added to the input."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.relu1 = _norm(inside), nn.ReLU()
        self.conv1 = skip_init(nn.Conv2d, inside, outside, 3, stride, padding=1)
        self.norm2, self.relu2 = _norm(outside), nn.ReLU()
        self.conv2 = skip_init(nn.Conv2d, outside, outside, 3, padding=1)
        self.shortcut = None
        if inside != outside or stride != 1:
            self.shortcut = skip_init(nn.Conv2d, inside, outside, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        entry = self.relu1(self.norm1(x))
        kept = x if self.shortcut is None else self.shortcut(entry)
        return kept + self.conv2(self.relu2(self.norm2(self.conv1(entry))))


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, each before a norm; the input is added before the last ReLU."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = skip_init(nn.Conv2d, inside, outside, 3, stride, padding=1, bias=False)
        self.norm1, self.relu1 = _norm(outside), nn.ReLU()
        self.conv2 = skip_init(nn.Conv2d, outside, outside, 3, padding=1, bias=False)
        self.norm2, self.relu2 = _norm(outside), nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if inside != outside or stride != 1:
            self.shortcut = nn.Sequential(skip_init(nn.Conv2d, inside, outside, 1, stride, bias=False), _norm(outside))

    def forward(self, x: Tensor) -> Tensor:
        changed = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        return self.relu2(self.shortcut(x) + changed)


class _MaxPool(nn.Module):
    """The largest number in each square of two by two."""

    def forward(
        self, x: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel half_height half_width"]:
        if suits(x.detach()) and x.is_contiguous() and min(x.shape[2:]) > 1:
            from featscope.kernels.max_pool import largest

            return largest(x)
        return max_pool2d(x, 2)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(gcd(channels, 8), channels)


def require_one(draws: Draws) -> None:
    """Refuse several replicas of what is one network.

    Raises:
        ValueError: there are several.
    """
    if draws.replicas != 1:
        raise ValueError(f"replicas = {draws.replicas}: allowed is 1, as an encoder is one network")


def initialise(module: M, draws: Draws) -> M:
    """Set all weights from ``draws``: He-normal matrices and filters, zero biases, norms as they are built.

    PyTorch's own initialisation draws from one global generator, which worker threads share; layers are made by
    `torch.nn.utils.skip_init`, which draws nothing.

    Raises:
        ValueError: there are several replicas: a module is one network.
    """
    require_one(draws)
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            fan_in = part.weight[0].numel()
            with torch.no_grad():
                part.weight.copy_(draws.normal(*part.weight.shape)[0] * sqrt(2 / fan_in))
                if part.bias is not None:
                    part.bias.zero_()
    return module
