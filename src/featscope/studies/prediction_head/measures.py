"""What is measured: paths of a few starts, and for every start how it ended and when it passed each phase."""

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featscope.data import PatchSource
from featscope.studies.prediction_head.phases import EVENTS, PhasesRule, roles
from featscope.training import Experiment, Measurement
from featscope.training.flow import Flow
from featscope.training.population import OrderParameters, Population, PopulationNetwork

SHOWN = 8  # starts of a replica whose paths are kept
PURE = 0.3  # the smaller |B| over the larger one, below which a neuron has one feature


def trajectory(experiment: Experiment) -> Mapping[str, Measurement]:
    """Overlaps, noise, head and time; of the flow those of the first starts."""
    if isinstance(experiment, Flow) and not isinstance(experiment.learner, PopulationNetwork):
        return {}
    y, time = _order_parameters(experiment), None
    shape: tuple[int, ...] = (len(experiment.streams.replicas), 1)
    if isinstance(experiment, Flow):
        shape, time = tuple(experiment.time.shape), experiment.time
    if len(y.b) != 2:
        return {}

    def shown(values: Tensor) -> Tensor:
        """``[..., trajectory]`` as ``[replica, start, ...]``."""
        return values.movedim(-1, 0).unflatten(0, shape)[:, :SHOWN].float()

    found = {
        "overlap": Measurement(shown(y.b), ("path", "neuron", "feature"), "1", "B_jl = <w_j, v_l>"),
        "noise_norm": Measurement(
            shown(y.r.diagonal(dim1=0, dim2=1).mT), ("path", "neuron"), "1", "R_j, squared norm of w_j off the features"
        ),
        "head": Measurement(
            shown(torch.stack([y.e[0, 1], y.e[1, 0]])), ("path", "neuron"), "1", "E_12 and E_21, by the row"
        ),
    }
    if time is not None:
        found["time"] = Measurement(time[:, :SHOWN], ("path",), "1/η", "time of the flow")
    return found


def _order_parameters(experiment: Experiment) -> OrderParameters:
    if isinstance(experiment, Flow):
        return cast(PopulationNetwork, experiment.learner).order_parameters
    source = cast(PatchSource, experiment.source)
    weight = experiment.learner.get_parameter("encoder.weight").detach()
    overlap = weight @ source.dictionary
    gram = weight @ weight.mT - overlap @ overlap.mT
    head = getattr(experiment.learner.get_submodule("head"), "off_diagonal", torch.zeros_like(gram))
    return OrderParameters(*(x.movedim(0, -1) for x in (overlap, gram, head)))


def features_of(b: Float[Tensor, "neuron 2 trajectory"]) -> tuple[Tensor, Bool[Tensor, "neuron trajectory"]]:
    """Each neuron's larger overlap (0: strong, 1: weak), and whether the other is small beside it."""
    size = b.abs()
    return size.argmax(1), size.amin(1) < PURE * size.amax(1)


def ends_on_strong(b: Float[Tensor, "neuron 2 trajectory"], of: Population) -> Bool[Tensor, "neuron trajectory"]:
    """`featscope.theory.prediction_head.ends_on_strong` where each trajectory has its own data."""
    pull = b.abs() * of.same**0.25
    return pull[:, 0] > pull[:, 1]


def outcomes(experiment: Experiment) -> Mapping[str, Measurement]:
    """How each start ended, and what it passed on the way."""
    flow = cast(Flow, experiment)
    learner = cast(PopulationNetwork, flow.learner)
    (phases,) = (rule for rule in flow.rules if isinstance(rule, PhasesRule))
    shape = learner.state.shape[:2]
    y, of = learner.order_parameters, learner.population(torch.arange(shape.numel(), device=learner.state.device))
    kept = {name: buffer.flatten(0, 1) for name, buffer in phases.named_buffers()}
    start = OrderParameters.unpack(kept["start"].mT, 2)
    fast = kept["fast"]
    feature, pure = features_of(y.b)
    strong = ends_on_strong(start.b, of)
    whole = pure.all(0)
    b0, r0, _ = roles(start, fast)
    b, r, e = roles(y, fast)
    of_start: dict[str, tuple[Tensor, str]] = {
        "predicted_collapse": (strong.all(0), "whether both neurons end on the strong feature without head (D)"),
        "rule_followed": ((feature == 0) == strong, "share of neurons that end where they would without head"),
        "collapsed": (whole & (feature == 0).all(0), "both neurons have the strong feature"),
        "diverse": (whole & (feature[0] != feature[1]), "the neurons have different features"),
        "mixed": (~whole, "some neuron has both features or none yet"),
        "strong_leads": (y.b.abs().amax(0).argmax(0) == 0, "the largest overlap is with the strong feature"),
        "final_loss": (of.loss(y), "loss at the end"),
        "correlation": (_correlation(y, of).abs(), "|Corr(f_1, f_2)| over views at the end"),
        "drift": (kept["drift"], "largest change of ||w||² - 3 (η/η_E)(...)"),
        "start_overlap": (b0[0, 0], "B_11 at the start"),
        "start_noise": (r0[0], "R_1 at the start"),
        "end_overlap": (b[0, 0], "B_11 at the end"),
        "end_noise": (r[0], "R_1 at the end"),
        "slow_norm": ((b0[1] ** 2).sum(0) + r0[1], "||w_2||² at the start"),
        "other_weak": (b[1, 1], "B_22 at the end"),
        "head_peak": (kept["peak"], "the largest |E_21|"),
        "head_end": (e[1].abs(), "|E_21| at the end"),
        "head_decay": (_head_decay(learner, fast), "-d(dE_21/dt)/dE_21 at the end"),
    } | _substitution(of, kept)
    of_start |= {f"time_{event}": (kept[event], "time of the event; inf if it has not happened") for event in EVENTS}
    given = of_start["predicted_collapse"][0].view(shape)
    rescue = (of_start["diverse"][0].view(shape) & given).sum(1) / given.sum(1)
    found = {
        "rescued": Measurement(rescue, (), "1", "of starts that would collapse without head, share that is diverse")
    }
    for name, (values, about) in of_start.items():
        values = values.double().mean(0) if values.ndim == 2 else values.double()
        found[name] = Measurement(values.view(shape), ("start",), "1/η" if name.startswith("time") else "1", about)
    return found


def _substitution(of: Population, kept: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, str]]:
    """What the trajectory looked like after T_1, and where |E_21| was largest; meaningless where they have not come."""
    fast = kept["fast"]
    one, two, top = (OrderParameters.unpack(kept[f"at_{at}"].mT, 2) for at in ("strong_learned", "substituted", "peak"))
    b1, b2 = roles(one, fast)[0], roles(two, fast)[0]
    others = torch.stack([(b2 - b1).abs()[0, 1] / b1[0, 1].abs(), *((b2 - b1).abs()[1] / b1[1].abs())])
    b, _, e = roles(top, fast)
    borrowed = e[1] * b[0, 0] ** 3
    noise = of.noise_products(top.r)
    order = torch.stack([fast, 1 - fast])
    own = noise.diagonal(dim1=0, dim2=1).mT.gather(0, order)
    through = own[1] + 2 * e[1] * noise[0, 1] + e[1] ** 2 * own[0]
    signal = torch.stack([b[1, 0] ** 3 + borrowed, b[1, 1] ** 3 + e[1] * b[0, 1] ** 3])
    heights = of.own * signal**2 + of.noise_patches * through
    return {
        "others_moved": (others.amax(0), "largest relative change of the other overlaps from T_1 to substitution"),
        "head_sign": ((e[1] * b[0, 0] * b[1, 0] > 0), "whether E_21 has the sign of B_11 B_21 at its peak"),
        "borrowed": ((borrowed / b[1, 0] ** 3).abs(), "|E_21 B_11³ / B_21³| at the peak of E_21"),
        "acceleration": (heights[0] / heights[1], "H_21/H_22 at the peak of E_21"),
    }


def _correlation(y: OrderParameters, of: Population) -> Float[Tensor, " trajectory"]:
    cubes, noise = y.b**3, of.noise_products(y.r)
    moments = (of.own * cubes[:, None] * cubes[None]).sum(2) + of.noise_patches * noise
    return moments[0, 1] * (moments[0, 0] * moments[1, 1]).rsqrt()


def _head_decay(learner: PopulationNetwork, fast: Tensor, nudge: float = 1e-6) -> Float[Tensor, " trajectory"]:
    """By a central difference of the velocity in E_21. The state ends with E_12 and E_21."""
    y = learner.state.detach().flatten(0, 1).mT
    everyone = torch.arange(y.shape[1], device=y.device)
    place = (len(y) - 1 - fast)[None]  # row of the slow neuron's entry
    shift = torch.zeros_like(y).scatter_(0, place, nudge)
    change = learner.velocity(y + shift, everyone) - learner.velocity(y - shift, everyone)
    return -change.gather(0, place)[0] / (2 * nudge)


def widths(experiment: Experiment) -> Mapping[str, Measurement]:
    """Whether the first m neurons of a start all end on the strong feature, for every m that is a power of 2."""
    learner = cast(PopulationNetwork, experiment.learner)
    replicas = len(learner.state)
    feature, pure = features_of(learner.order_parameters.b)
    collapsed = ((feature == 0) & pure)[0].view(replicas, -1, WIDEST)
    ever = collapsed.cumprod(-1).double().mean(1)
    sizes = [2**k - 1 for k in range(WIDEST.bit_length())]
    about = "share of starts all of whose first 1, 2, 4, ... neurons end on the strong feature"
    return {"collapsed_up_to": Measurement(ever[:, sizes], ("doubling",), "1", about)}


WIDEST = 64
