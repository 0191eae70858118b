"""What is measured: paths of a few starts, and for every start how it ended and when it passed each phase."""

from collections.abc import Mapping
from typing import Any

import torch
import xarray as xr
from torch import Tensor
from torch.nn.functional import normalize

from featscope.data import PatchFeatures
from featscope.models import CubicPatchesNetwork, IdentityHead, OnlineNetwork
from featscope.models.population import OrderParameters, PopulationNetwork, of_weights
from featscope.probes.order_parameters import head_decay, substitution, velocity_on_batches
from featscope.studies.reductions import known, mean_of
from featscope.theory.prediction_head import ends_on_strong
from featscope.training import Experiment, Flow, GradientTraining, Measurement, PredictOtherView
from featscope.training.infinite_batches import population
from featscope.training.phases import EVENTS, KEPT, LEARNED, QUANTITIES, Signs, quantities

MOMENTS = ("start", "T1", "T2", "T3", "end")
SHOWN = 8  # starts of a replica whose paths are kept
WIDEST = 64  # neurons
OUTPUTS = 4096  # whose directions are looked at
DATA = PatchFeatures(input_dim=10, patches=10, feature_patches=4, strong=1.3, weak=1.1, noise_std=0.5)
NEURONS, SAMPLES, BATCHES = 3, 16384, 12  # with `DATA`, where the gradient is that of the equation


def gradient(experiment: Experiment) -> Mapping[str, Measurement]:
    """The gradient of Algorithm 1's loss at random weights of three neurons and a random head, over the equation's.

    Measured is the inner product of the two, and the square of the equation's, of overlaps, noise and head apart: equal
    in the mean if they agree. Everything is of the same order there: signal and noise, own and borrowed.
    """
    streams = experiment.streams
    source, draws = DATA.build(streams.at("exact dictionary")), streams.at("exact weights")
    weight = 0.5 * draws.normal(NEURONS, DATA.input_dim)
    head = IdentityHead(0.5 * draws.normal(NEURONS, NEURONS), weight.new_ones(len(weight), 1, 1))
    network = OnlineNetwork(CubicPatchesNetwork(weight), head).to(streams.device)
    objective = PredictOtherView(samples=SAMPLES, noise="dense")
    batches = [streams.at("exact batch", batch) for batch in range(BATCHES)]
    at, measured = velocity_on_batches(network, source, objective, batches)
    exact = population(DATA, len(weight), rate=1.0, device=at.device).velocity(at, NEURONS)
    parts = (OrderParameters.unpack(y, NEURONS) for y in (measured, exact))
    ours, theirs = ((y.b.flatten(0, 1), y.r.flatten(0, 1), y.e.flatten(0, 1)) for y in parts)
    along = [(one * other).sum(0) for one, other in zip(ours, theirs, strict=True)]
    exactly = [(other**2).sum(0) for other in theirs]
    apart = (measured - exact).square().sum(0).sqrt() / (exact**2).sum(0).sqrt()
    about = "gradient of a large batch times the equation's: of B, R and E"
    return {
        "gradient_along": Measurement(torch.stack(along, -1), about, ("part",)),
        "gradient_exact": Measurement(torch.stack(exactly, -1), "the equation's, squared: of B, R and E", ("part",)),
        "gradient_apart": Measurement(apart, "distance of the two, relative"),
    }


def trajectory(experiment: Flow | GradientTraining) -> Mapping[str, Measurement]:
    """Overlaps, noise, head and time of two neurons; of the flow those of the first starts."""
    learner = experiment.learner
    if isinstance(experiment, GradientTraining):
        b, r = of_weights(learner.encoder.weight, experiment.source.dictionary)
        e = getattr(learner.head, "off_diagonal", torch.zeros_like(r))
        y, shape = OrderParameters(*(x.movedim(0, -1) for x in (b, r, e))), torch.Size((len(b), 1))
    elif getattr(learner, "neurons", 0) == 2:
        y, shape = learner.order_parameters, experiment.time.shape
    else:
        return {}

    def shown(values: Tensor) -> Tensor:
        """``[..., trajectory]`` as ``[replica, start, ...]``."""
        return values.movedim(-1, 0).unflatten(0, shape)[:, :SHOWN].float()

    head = torch.stack([y.e[0, 1], y.e[1, 0]])
    found = {
        "overlap": Measurement(shown(y.b), "B_jl = <w_j, v_l>", ("path", "neuron", "feature")),
        "noise_norm": Measurement(shown(y.norms), "R_j, squared norm of w_j off the features", ("path", "neuron")),
        "head": Measurement(shown(head), "E_12 and E_21, by the row", ("path", "neuron")),
    }
    if isinstance(experiment, Flow):
        found["time"] = Measurement(experiment.time[:, :SHOWN], "time of the flow", ("path",), "1/η")
    return found


def outcomes(experiment: Flow) -> Mapping[str, Measurement]:
    """How each start ended, and what it passed on the way."""
    learner: PopulationNetwork = experiment.learner
    shape = learner.state.shape[:2]
    phases: Any = experiment.rules["phases"]
    y, of, kept = learner.order_parameters, learner.population(), phases.trajectories()
    moments, fast = ("start", "at_strong_learned", "at_substituted", "at_weak_learned", "at_peak"), kept["fast"]
    start, learned, borrowed, weak, peak = (OrderParameters.unpack(kept[moment].mT, 2) for moment in moments)
    helped = substitution(learned, borrowed, peak, of, fast)
    feature, pure = y.features
    pure = pure & (y.b.abs().amax(1) >= LEARNED)  # a neuron that has learned nothing yet has some ratio, too
    by_rule = ends_on_strong(start.b.movedim(-1, 0).cpu().numpy(), of.same.mT[:, None].cpu().numpy())
    strong = torch.from_numpy(by_rule).to(fast.device).mT
    whole = pure.all(0)
    (b0, r0, _), (b, r, e) = start.by_role(fast), y.by_role(fast)
    of_start: dict[str, tuple[Tensor, str]] = {
        "predicted_collapse": (
            strong.all(0),
            "whether both neurons end on the strong feature without head, by the rule",
        ),
        "rule_followed": ((feature == 0) == strong, "share of neurons that end where they would without head"),
        "collapsed": (whole & (feature == 0).all(0), "both neurons have the strong feature"),
        "diverse": (whole & (feature[0] != feature[1]), "the neurons have different features"),
        "mixed": (~whole, "some neuron has both features or none yet"),
        "final_loss": (of.loss(y), "loss at the end"),
        "correlation": (of.correlation(y)[0, 1].abs(), "|Corr(f_1, f_2)| over views at the end"),
        "drift": (kept["drift"], "largest change of ||w||² - 3 (η/η_E)(...)"),
        "start_overlap": (b0[0, 0], "B_11 at the start"),
        "start_noise": (r0[0], "R_1 at the start"),
        "end_overlap": (b[0, 0], "B_11 at the end"),
        "end_noise": (r[0], "R_1 at the end"),
        "slow_norm": ((b0[1] ** 2).sum(0) + r0[1], "||w_2||² at the start"),
        "slow_noise": (r0[1], "R_2 at the start"),
        "other_overlap": (y.b.abs().amin(1).amax(0), "the larger over neurons of a neuron's smaller |B| at the end"),
        "residual": (
            (y.b.abs().amin(1) ** 2 + y.norms).amax(0).sqrt(),
            "the larger over neurons of the norm of what is off a neuron's feature at the end",
        ),
        "other_weak": (b[1, 1], "B_22 at the end"),
        "head_peak": (kept["peak"], "the largest |E_21|"),
        "head_end": (e[1].abs(), "|E_21| at the end"),
        "head_decay": (head_decay(learner, fast), "-d(dE_21/dt)/dE_21 at the end"),
        # Meaningless where T_1 or substitution have not come.
        "others_moved": (helped.others_moved, "largest relative change of the other overlaps from T_1 to substitution"),
        "head_sign": (helped.head_sign, "whether E_21 has the sign of B_11 B_21 at its peak"),
        "borrowed": (helped.borrowed, "|E_21 B_11³ / B_21³| at the peak of E_21"),
        "acceleration": (helped.acceleration, "H_21/H_22 at the peak of E_21"),
    }
    of_start |= {f"time_{event}": (kept[event], "time of the event; inf if it has not happened") for event in EVENTS}
    always = torch.ones_like(fast, dtype=torch.bool)
    come = [always, *(kept[event].isfinite() for event in KEPT), always]
    states = (start, learned, borrowed, weak, y)  # at `MOMENTS`
    begun = Signs.of(start, fast)
    seen = [torch.where(c, quantities(then, fast, begun), torch.nan) for c, then in zip(come, states, strict=True)]
    given = of_start["predicted_collapse"][0].view(shape)
    rescue = (of_start["diverse"][0].view(shape) & given).sum(1) / given.sum(1)
    found = {"rescued": Measurement(rescue, "of starts that would collapse without head, share that is diverse")}
    for name, (values, about) in of_start.items():
        values = values.double().mean(0) if values.ndim == 2 else values.double()
        found[name] = Measurement(values.view(shape), about, ("start",), "1/η" if name.startswith("time") else "1")
    watched = {"moments": torch.stack(seen).movedim(-1, 0), "low": kept["low"], "high": kept["high"]}
    about = "B, R, E by role at the start, T_1, T_2, T_3 and the end; NaN where it has not come"
    for name, values in watched.items():
        of_which = ("start", "moment" if name == "moments" else "phase", "quantity")
        found[name] = Measurement(
            values.double().view(*shape, *values.shape[1:]),
            about if name == "moments" else f"{name} end of B, R, E by role in each phase",
            of_which,
        )
    return found


def at(run: xr.Dataset, moment: str, quantity: str) -> xr.DataArray:
    """One of `QUANTITIES` at "start", "T1", "T2", "T3" or "end"."""
    return run["moments"].isel(moment=MOMENTS.index(moment), quantity=QUANTITIES.index(quantity))


def ends(run: xr.Dataset, phase: int, quantity: str) -> tuple[xr.DataArray, xr.DataArray]:
    """The least and the largest of one of `QUANTITIES` in a phase, 0 to 3."""
    place = {"phase": phase, "quantity": QUANTITIES.index(quantity)}
    return run["low"].isel(place), run["high"].isel(place)


def widths(experiment: Flow) -> Mapping[str, Measurement]:
    """How often m neurons all end on the strong feature, for every m that is a power of 2, up to `WIDEST`.

    Without head neurons know nothing of each other: any m starts of one neuron are a network of as many.
    """
    learner: PopulationNetwork = experiment.learner
    feature, pure = learner.order_parameters.features
    learned = learner.order_parameters.b.abs().amax(1) >= LEARNED
    collapsed = ((feature == 0) & pure & learned).view(len(learner.state), -1)
    sizes = [2**k for k in range(WIDEST.bit_length())]
    shares = [collapsed.unflatten(1, (-1, m)).all(-1).double().mean(1) for m in sizes]
    about = "share of networks of 1, 2, 4, ... neurons that all end on the strong feature"
    return {"all_collapsed": Measurement(torch.stack(shares, -1), about, ("doubling",))}


def directions(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """Whether outputs lie along one line (Remark 4.5); every look sees samples from the same draws."""
    sample = experiment.source.projected(experiment.streams.at("directions"), OUTPUTS)
    unit = normalize(experiment.learner.encoder.of_patches(sample).sum(-2).double(), dim=-1)
    values = torch.linalg.eigvalsh(unit.mT @ unit / unit.shape[1])
    about = "share of the first direction in the second moment of outputs scaled to norm 1"
    return {"one_line": Measurement(values[:, -1] / values.sum(-1), about)}


def trajectory_and_directions(experiment: GradientTraining) -> Mapping[str, Measurement]:
    """`trajectory` and `directions`."""
    return {**trajectory(experiment), **directions(experiment)}


def rank(experiment: Flow) -> Mapping[str, Measurement]:
    """Of a head that is set by hand."""
    about = "share of the larger eigenvalue in the trace of the head"
    return {"top_share": Measurement(experiment.learner.top_share(), about, ("start",))}


def among(flag: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """``flag`` of the starts where ``given``; NaN elsewhere, so that shares do not count those."""
    return flag.where(given > 0)


def share(flag: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """Of the starts of each replica where ``given``, the share with ``flag``."""
    return known(mean_of(flag, given > 0, "start"), given)


def of_those_with_some(values: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """``values`` of the replicas that have a start where ``given``; one of which that is not known stays, as NaN."""
    some = (given > 0).any("start") | given.isnull().any("start")
    return values.isel(replica=some.values)


def median(values: xr.DataArray, given: xr.DataArray) -> xr.DataArray:
    """Median over the starts of each replica where ``given``; those whose event never came have no value."""
    return known(values.where(given > 0).median("start", skipna=True), given)


def rescued(run: xr.Dataset) -> xr.DataArray:
    """Starts that end diverse though both neurons would end on the strong feature without head."""
    return run.diverse * run.predicted_collapse


def diverse(run: xr.Dataset) -> xr.DataArray:
    """Of the starts from which both neurons would end on the strong feature without head, the share that is diverse."""
    return share(run.diverse, run.predicted_collapse)
