"""Encoders of images by their names on the Hugging Face Hub: ResNets, vision transformers, CLIP's."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.encoders.frozen import FrozenEncoder
from featscope.hub import asking_hub, without_bars
from featscope.options import ConfigError, require, require_extra

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_MOST_PIXELS = 4096
_T = TypeVar("_T")


@dataclass(frozen=True)
class HubEncoder:
    """An encoder of images that transformers knows, by its name on the Hub or the folder that it lies in.

    Features of a network with feature maps (ResNet-50) are the means of its last ones; those of a transformer are what
    its first token has become, after the last normalisation; BEiT's, where it takes means, are the normalised means of
    its other tokens.

    Attributes:
        name: "microsoft/resnet-50", "openai/clip-vit-base-patch16", or a folder with config.json,
            preprocessor_config.json and model.safetensors.
    """

    name: str

    def __post_init__(self) -> None:
        require(self, "name", self.name != "", "a model of the Hub, or a folder")

    def load(self) -> FrozenEncoder:
        """The encoder. Images are brought to its size and scaled as its preprocessor's file says.

        Raises:
            MissingExtraError: the extra 'language' is not installed.
            ConfigError: there is no such model, it encodes no images, or some of its weights are missing.
        """
        with require_extra(f"The encoder {self.name!r}", "language"):
            from transformers import ImageProcessingMixin
        model, (about, _) = loaded(self.name, ImageProcessingMixin.get_image_processor_dict, self._refused)
        body = getattr(model, "vision_model", model)
        if model.main_input_name != "pixel_values" and body is model:
            raise self._refused(f"It takes {model.main_input_name}.")
        side, shift, scale = self._entry(about)
        features = self._features(_Body(body), side)
        known = config_of(model) + (" means" if _takes_means(body) else "")
        return FrozenEncoder(_Body(body), features, side, shift, scale, known)

    def _features(self, body: nn.Module, side: int) -> int:
        """How many there are, found by two looks at one image of noise."""
        image = torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0))
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=()):
                one, other = (body.eval()(image) for _ in range(2))
        except Exception as error:  # of as many kinds as there are models
            raise self._refused(f"It cannot look at {side} pixels: {str(error)[:200]}") from None
        if not torch.equal(one, other):
            raise self._refused("It says something else each time, as it hides parts of images by chance.")
        return int(one.shape[1])

    def _entry(self, about: Mapping[str, Any]) -> tuple[int, Sequence[float], Sequence[float]]:
        r"""Size of images, and shift and scale of bytes for each channel.

        A byte $x$ enters as $(rx - o - \mu)/\sigma$, $r$ the rescale_factor, $o = 1$ with rescale_offset; with
        EfficientNet's include_top over $\sigma$ once more.
        """
        kind = str(about.get("image_processor_type") or about.get("feature_extractor_type"))
        if about.get("do_flip_channel_order", kind.startswith("MobileViT")):
            raise self._refused("Its preprocessor_config.json has do_flip_channel_order: red comes first here.")
        size = about.get("crop_size") if about.get("do_center_crop") else None
        size = size or about.get("size")
        if isinstance(size, Mapping):
            size = size.get("height") or size.get("shortest_edge")
        mean, deviation = (_three(about.get(name)) for name in ("image_mean", "image_std"))
        again = deviation if about.get("include_top", kind.startswith("EfficientNet")) else (1.0, 1.0, 1.0)
        if about.get("do_normalize") is False:
            mean, deviation = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        rescales = about.get("do_rescale") is not False
        factor = about.get("rescale_factor") if rescales else 1.0
        factor = 1 / 255 if factor is None else factor
        offset = 1.0 if rescales and about.get("rescale_offset") else 0.0
        if not isinstance(size, int) or not 8 <= size <= _MOST_PIXELS:
            raise self._refused(f"Its preprocessor_config.json has a size of {size!r} (8 to {_MOST_PIXELS}).")
        if not mean or not deviation or not again or min(*deviation, *again) <= 0:
            raise self._refused("Its preprocessor_config.json has no image_mean and image_std of three channels.")
        if not isinstance(factor, int | float) or not 0 < factor < inf:
            raise self._refused(f"Its preprocessor_config.json has a rescale_factor of {factor!r} (above 0).")
        shift = tuple((value + offset) / factor for value in mean)
        return size, shift, tuple(one * other / factor for one, other in zip(deviation, again, strict=True))

    def _refused(self, problem: str) -> ConfigError:
        return ConfigError(
            f"encoder = {self.name[:300]!r} is out of range: allowed is an encoder of images that transformers loads "
            f"from safetensors, on the Hub or in a folder. {problem}"
        )


def loaded(
    name: str, beside: Callable[[str], _T], refused: Callable[[str], ConfigError]
) -> "tuple[PreTrainedModel, _T]":
    """A model of the Hub or of a folder in float32, from safetensors, no weight of it made up; and what goes with it.

    A layer that pools and came without weights, which is not used, has zeros: random ones would change fingerprints.

    Args:
        name: of the model.
        beside: reads the files beside its weights.
        refused: the error, by what is wrong.
    """
    from transformers import AutoModel

    try:
        with without_bars(), asking_hub():
            other = beside(name)
            model, found = AutoModel.from_pretrained(
                name, dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
    except Exception as error:  # of many kinds: no such name, no network, broken or foreign files
        raise refused(f"It cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    unused = [one for one in found["missing_keys"] if one.startswith("pooler.") and not _takes_means(model)]
    if missing := sorted({*found["missing_keys"]} - {*unused}):
        cure = "Get it again."
        if _takes_means(model) and all(one.startswith("pooler.") for one in missing):
            cure = "It takes means over tokens, and has nothing that normalises them: take a model that was fine-tuned."
        raise refused(f"{len(missing)} weights are missing, {missing[0]} for one. {cure}")
    weights = model.state_dict()
    for one in unused:
        weights[one].zero_()
    return model, other


def config_of(model: "PreTrainedModel") -> str:
    """What a model's config says, as JSON, but for where it lay and who reads it: a part of fingerprints."""
    said = json.loads(model.config.to_json_string())
    for name in ("_name_or_path", "transformers_version"):
        said.pop(name, None)
    return json.dumps(said, sort_keys=True)


def _takes_means(model: nn.Module) -> bool:
    """Whether it normalises the mean of its tokens instead of each, as BEiT does."""
    return bool(getattr(getattr(model, "config", None), "use_mean_pooling", False))


def _three(value: object) -> Sequence[float]:
    """Three numbers, or nothing."""
    good = isinstance(value, Sequence) and len(value) == 3 and all(isinstance(one, int | float) for one in value)
    return [float(one) for one in value] if good else ()  # type: ignore[attr-defined]


class _Body(nn.Module):
    """Feature maps; one of a single place where a transformer gives tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image feature row column"]:
        found = self.model(pixel_values=x)
        maps: Tensor = found.last_hidden_state
        pooled = getattr(found, "pooler_output", None)
        if maps.ndim == 4:
            if isinstance(pooled, Tensor) and pooled.shape[1] != maps.shape[1]:
                raise ValueError(f"its maps are {list(maps.shape)}: allowed is [image, {pooled.shape[1]}, row, column]")
            return maps
        # CLIP normalises the first token only in what it calls pooled; other models have a layer there that was not
        # trained with them.
        if hasattr(self.model, "post_layernorm") or _takes_means(self.model):
            if pooled is None:
                raise ValueError("it takes means over tokens, and has no layer that normalises them")
            return pooled[..., None, None]
        if not any(name.endswith(("cls_token", "class_embedding")) for name, _ in self.model.named_parameters()):
            raise ValueError("it has no token that stands for the whole image, and its first is one corner of it")
        first = maps[:, 0]
        return first[..., None, None]
