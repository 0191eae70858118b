"""Networks that tell two classes of images apart, and what becomes of their filters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.nn.utils import skip_init

from featscope.data.encoded_images import source_error
from featscope.data.image_pool import ImagePool, level
from featscope.models import ResNet18
from featscope.numbers import of_one
from featscope.options import require
from featscope.streams import Draws, Streams
from featscope.studies.learned_filters.clusters import COUNTS, Clusters, clusters, unit

STAGES = ("at the start", "after 3/20 of training", "at the end")
CHUNKS, CHUNK = 3, 10
"""Early gradients are averaged over three times ten steps."""
PAIRS = ((0, 1), (0, 2), (1, 2))
BLOCKS = 4
SHOWN = 48
"""Filters of the last layer whose cosines are kept."""


@dataclass(frozen=True)
class Filters:
    """Options of `FilterTraining`.

    Attributes:
        images: "digits", "shapes", a folder, or a data set of the Hub; of its first two classes.
        grey: one channel.
        side: pixels; 0 for images as they are, None for that on CUDA and `side_on_cpu` on the CPU.
        side_on_cpu: what None stands for there.
        train: images to train on; all that there are where that is fewer, or where it is 0.
        kind: a layer of hidden units and an output, or ResNet-18.
        width: hidden units, or filters of the first stage.
        spread: standard deviation of first weights of hidden units, times the root of the inputs' dimension.
        rate: step size of gradient descent with momentum 0.95.
        batch: images in a step.
        steps: of training; 0 leaves the network at its start.
        shuffled: whether labels are given to images by lot.
    """

    floats_per_replica: ClassVar[bool] = True

    images: str = "digits"
    grey: bool = True
    side: int | None = None
    side_on_cpu: int = 0
    train: int = 2000
    kind: Literal["hidden", "residual"] = "hidden"
    width: int = 50
    spread: float = 0.1
    rate: float = 0.05
    batch: int = 64
    steps: int = 200
    shuffled: bool = False

    def __post_init__(self) -> None:
        require(self, "images", self.images != "", "'digits', 'shapes', a folder, or a data set of the Hub")
        for name in ("train", "steps", "side_on_cpu"):
            require(self, name, getattr(self, name) >= 0, ">= 0")
        require(self, "side", (self.side or 0) >= 0, ">= 0")
        require(self, "width", self.width >= 2, ">= 2")
        require(self, "batch", self.batch >= 1, ">= 1")
        for name in ("spread", "rate"):
            require(self, name, getattr(self, name) > 0, "> 0")

    def build(self, draws: Draws) -> "FilterTraining":
        """Before the images are drawn."""
        return FilterTraining(self, draws)


class _Hidden(nn.Module):
    """One layer of ReLUs and an output."""

    def __init__(self, width: int, pixels: int, spread: float, draws: Draws) -> None:
        super().__init__()
        self.weights = nn.Parameter(draws.normal(width, pixels)[0] * spread / pixels**0.5)
        self.biases = nn.Parameter(torch.zeros(width, device=draws.device))
        self.outer = nn.Parameter(draws.normal(width)[0] / width**0.5)

    def forward(self, x: Float[Tensor, "image c h w"]) -> Float[Tensor, " image"]:
        """The margin of the first class."""
        return (x.flatten(1) @ self.weights.T + self.biases).relu() @ self.outer

    def layers(self) -> list[Tensor]:
        """Its filters."""
        return [self.weights]


class _Residual(nn.Module):
    """ResNet-18, its features' mean and an output."""

    def __init__(self, width: int, draws: Draws) -> None:
        super().__init__()
        self.body = ResNet18(width).build(None, draws).to(draws.device)
        self.head = skip_init(nn.Linear, self.body.features, 1, device=draws.device)  # a device draws nothing itself
        with torch.no_grad():
            self.head.weight.copy_(draws.normal(1, self.body.features)[0] / self.body.features**0.5)
            self.head.bias.zero_()

    def forward(self, x: Float[Tensor, "image c h w"]) -> Float[Tensor, " image"]:
        """The margin of the first class."""
        return self.head(self.body(x / 4 + 0.5))[:, 0]  # the body takes pixels in [0, 1]

    def layers(self) -> list[Tensor]:
        """Filters of the last convolution of each of the four groups of blocks."""
        return [self.body.get_parameter(f"body.block{group + 1}_1.conv2.weight").flatten(1) for group in range(BLOCKS)]


class FilterTraining(nn.Module):
    """A network a replica; what a step finds is kept as buffers, NaN before.

    Args:
        options: see `Filters`.
        draws: for their number and device.
    """

    def __init__(self, options: Filters, draws: Draws) -> None:
        super().__init__()
        self.options = options
        layers, stages = (1 if options.kind == "hidden" else BLOCKS), len(STAGES)
        last = options.width * 2 ** (layers - 1)
        self.shapes: dict[str, tuple[int, ...]] = {
            "accuracy": (),
            "tests": (),
            "seen": (),
            "early": (layers,),
            "late": (layers,),
            "agreement": (len(PAIRS),),
            "agreement_of_all": (len(PAIRS),),
            "to_mean": (CHUNKS,),
            "cosines": (stages, min(last, SHOWN), min(last, SHOWN)),
            "members": (min(last, SHOWN),),
            "silhouettes": (stages, layers, len(COUNTS)),
        }
        self.shapes |= dict.fromkeys(("own", "between", "picked"), (stages, layers))
        if options.kind == "hidden":
            source = ImagePool(options.images, "train", self._side(draws))
            first = source.pixels(torch.zeros(1, 1, dtype=torch.long), options.grey)
            self.image_shape = tuple(first.shape[2:])
            self.shapes["filters"] = (stages, options.width, *self.image_shape)
        for name, shape in self.shapes.items():
            empty = torch.full((draws.replicas, *shape), torch.nan, dtype=torch.float64, device=draws.device)
            self.register_buffer(name, empty)

    def _side(self, draws: Draws) -> int:
        o = self.options
        return o.side if o.side is not None else o.side_on_cpu * (draws.device.type == "cpu")

    @property
    def passed(self) -> Bool[Tensor, "replica 1"]:
        """One step is all."""
        return self.get_buffer("accuracy")[:, None].isfinite()

    def forward(self, draws: Draws) -> None:
        """Train one network after another."""
        seeds = draws.uniform(1).flatten().mul(2**24).long().tolist()
        for replica, seed in enumerate(seeds):
            self._train(replica, Streams(seed, [0], draws.device))

    @torch.enable_grad()
    def _train(self, replica: int, streams: Streams) -> None:
        o = self.options
        side = self._side(streams.at("start"))
        x, y, tests, labels = _two_classes(o, side, streams)
        start = streams.at("start")
        network: _Hidden | _Residual = _Residual(o.width, start)
        if o.kind == "hidden":
            network = _Hidden(o.width, x[0].numel(), of_one(o.spread, replica), start)
        optimizer = torch.optim.SGD(network.parameters(), lr=of_one(o.rate, replica), momentum=0.95)
        looks = {0: 0, round(o.steps * 3 / 20): 1, o.steps: 2}
        stages: list[list[Tensor]] = [[one.detach().clone() for one in network.layers()]]
        pulls, draws = torch.zeros(CHUNKS, *stages[0][-1].shape, device=x.device), streams.at("batch")
        for step in range(o.steps):
            places = (draws.uniform(o.batch)[0] * len(x)).long()
            loss = softplus(-y[places] * network(x[places])).mean()
            optimizer.zero_grad()
            loss.backward()
            if step < CHUNKS * CHUNK:
                gradient = network.layers()[-1]
                pulls[step // CHUNK] += _gradient(network, gradient)
            optimizer.step()
            if step + 1 in looks:
                stages.append([one.detach().clone() for one in network.layers()])
        stages += [stages[-1]] * (len(STAGES) - len(stages))
        with torch.no_grad():
            named = torch.cat([network(part) for part in tests.split(500)])
        self.get_buffer("accuracy")[replica] = ((named * labels) > 0).double().mean()
        self.get_buffer("tests")[replica] = len(tests)
        known = {one.tobytes() for one in x.cpu().numpy()}
        self.get_buffer("seen")[replica] = sum(one.tobytes() in known for one in tests.cpu().numpy()) / len(tests)
        self._filters(replica, stages)
        self._pulls(replica, pulls, stages[-1][-1])

    def _filters(self, replica: int, stages: Sequence[Sequence[Tensor]]) -> None:
        for layer, (first, middle, last) in enumerate(zip(*stages, strict=True)):
            scale = first.norm()
            self.get_buffer("early")[replica, layer] = (middle - first).norm() / scale
            self.get_buffer("late")[replica, layer] = (last - middle).norm() / scale
        known: dict[int, Clusters] = {}
        for stage, layers in enumerate(stages):
            for layer, weights in enumerate(layers):
                if id(weights) not in known:  # what was never trained is the same at all stages
                    known[id(weights)] = clusters(weights.cpu().numpy())
                found = known[id(weights)]
                for name in ("own", "between", "picked"):
                    self.get_buffer(name)[replica, stage, layer] = getattr(found, name)
                silhouettes = torch.from_numpy(found.silhouettes)
                self.get_buffer("silhouettes")[replica, stage, layer] = silhouettes.to(self.get_buffer("own").device)
            few = unit(layers[-1][:SHOWN].double().cpu().numpy())
            self.get_buffer("cosines")[replica, stage] = torch.from_numpy(few @ few.T)
            if "filters" in self.shapes:
                self.get_buffer("filters")[replica, stage] = layers[0].unflatten(1, self.image_shape)
        self.get_buffer("members")[replica] = torch.from_numpy(found.members[:SHOWN]).double()

    def _pulls(self, replica: int, pulls: Tensor, final: Tensor) -> None:
        """Cosines of gradients of the filter nearest to the centre of the larger cluster, and means over filters."""
        points = unit(final.double().cpu().numpy())
        members = clusters(points).members
        larger = int(members.mean() > 0.5)
        nearest = int(np.where(members == larger, points @ points[members == larger].mean(0), -np.inf).argmax())
        v = pulls.double().cpu().numpy()
        each = unit(v)
        every = torch.from_numpy(np.stack([(each[i] * each[j]).sum(-1) for i, j in PAIRS]))
        to_mean = torch.from_numpy((each * unit(v.mean(0))).sum(-1))
        self.get_buffer("agreement")[replica] = every[:, nearest]
        self.get_buffer("agreement_of_all")[replica] = every.mean(1)
        self.get_buffer("to_mean")[replica] = to_mean[:, nearest]


def _gradient(network: _Hidden | _Residual, filters: Tensor) -> Tensor:
    """Of the last layer of filters."""
    if isinstance(network, _Hidden):
        found = network.weights.grad
    else:
        found = network.body.get_parameter(f"body.block{BLOCKS}_1.conv2.weight").grad
    assert found is not None
    return found.reshape(filters.shape)


def _two_classes(
    o: Filters, side: int, streams: Streams
) -> tuple[Float[Tensor, "image c h w"], Float[Tensor, " image"], Float[Tensor, "test c h w"], Float[Tensor, " test"]]:
    """Images of the first two classes with labels 1 and -1, to train on and to judge by."""
    parts: list[Tensor] = []
    scale: tuple[Tensor, Tensor] | None = None
    for split, most in (("train", o.train), ("test", 0)):
        pool, draws = ImagePool(o.images, split, side), streams.at(split)
        two = (pool.labels < 2).nonzero()[:, 0]
        if lacks := {0, 1} - {*pool.labels[two].tolist()}:
            allowed = "images of the first two classes, to train on and to judge by"
            raise source_error(o.images, allowed, f"In {split} none has the label {min(lacks)}. Count classes from 0.")
        order: Int[Tensor, " image"] = two[draws.choice(len(two), most or len(two))[0].cpu()]
        pixels = pool.pixels(order[None], o.grey)
        scale = scale or level(pixels)
        y = 1.0 - 2 * pool.labels[order]
        if o.shuffled:
            y = y[draws.choice(len(y), len(y))[0].cpu()]
        parts += [((pixels - scale[0]) / scale[1])[0].to(draws.device), y.to(draws.device)]
    return parts[0], parts[1], parts[2], parts[3]
