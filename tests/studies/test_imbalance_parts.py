"""Parts of the study of imbalance: what claims of Stage 2, endings and curves make of trajectories set by hand."""

from math import log

import numpy as np
import pytest
import torch
import xarray as xr
from small_imbalance import STUDY, sampling

from featscope.data import SparseTokensSource
from featscope.losses import InfoNCE
from featscope.models import TokenMLPNetwork
from featscope.streams import Streams
from featscope.studies.imbalance import Imbalance, probes, samples
from featscope.training import SGD, ContrastivePairs, GradientTraining

D, LOOKS = 12, [0, 10, 30, 40]
T1, T2 = 10, 30
OF = STUDY.arm("lottery").recipe
LUCKY, ORDINARY = 0.6, 0.35  # shares: of one feature, above .52; of any, above .33


def trajectory(
    start: list[dict[int, float]], then: list[dict[int, float]], norm: list[list[float]], **more
) -> xr.Dataset:
    """Two replicas alike of neurons with signed squared cosines of features, at the start and ever after."""

    def cosines(shares: list[dict[int, float]]) -> np.ndarray:
        found = np.zeros((len(shares), D))
        for neuron, held in enumerate(shares):
            for feature, share in held.items():
                found[neuron, feature] = np.sign(share) * abs(share) ** 0.5
        return found

    path = np.array([cosines(start)] + [cosines(then)] * (len(LOOKS) - 1))
    axes = ("replica", "step", "neuron")
    held = {"alignment": ((*axes, "feature"), [path] * 2), "norm": (axes, [np.array(norm).T] * 2)}
    held |= {name: (axes, [np.array(values).T] * 2) for name, values in more.items()}
    ends = {"stage1_end": T1, "stage2_end": T2, "last_step": LOOKS[-1]}
    held |= {name: ("replica", [step] * 2) for name, step in ends.items()}
    return xr.Dataset(held, {"replica": [0, 1], "step": LOOKS})


def measured(id: str, run: xr.Dataset, arm: str = "lottery") -> float:
    (test,) = (test for test in Imbalance.tests if test.statement.id == id)
    return test.judge(STUDY, arm, {arm: run}).measured


def still(neurons: int) -> list[list[float]]:
    return [[1.0] * len(LOOKS)] * neurons


# --- Stage 2 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("short", [0.0, 0.1])
def test_thresholds_are_to_rise_by_the_larger_of_two_rates(short: float):
    """The first neuron's norm doubles, the second's shrinks; the first threshold is ``short`` of it, in logarithms."""
    least = (T2 - T1) * np.log1p(OF.rules["bias"].growth * OF.optimizer.lr / D)
    assert least < log(2) - 0.1
    run = trajectory(
        [{0: LUCKY}, {1: LUCKY}],
        [{0: LUCKY}, {1: LUCKY}],
        [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 0.5, 0.5]],
        bias=[[0.0, 0.1, 0.2 * np.exp(-short), 0.2], [0.0, 0.1, 0.1 * np.exp(least), 0.1]],
    )
    assert measured("thresholds-rise", run) == pytest.approx(1e-3 - short, abs=1e-9)


def test_lucky_neurons_have_grown_beside_what_all_were_at_the_end_of_stage_1():
    """A² = .6 · 4 is above 2 (ε_j/ε_max) at ‖w(T1)‖ = 1 and below it at ‖w(T1)‖ = 2, whatever the norm is later."""
    neurons = [{0: LUCKY}, {0: -LUCKY}]
    run = trajectory(neurons, neurons, [[1, 1, 2, 2], [1, 2, 2, 2]])
    assert measured("lucky-at-t2", run) == 0.5


def test_lucky_neurons_lead_by_what_the_best_of_them_has():
    """The second neuron is ordinary for two features, so that it is lucky for none, and has 1.5 or 3 times as much."""
    for longer, share in ((1.5, 1), (3, 0)):
        run = trajectory(
            [{0: LUCKY}, {0: ORDINARY, 1: ORDINARY}], [{0: 1.0}, {0: 1.0}], [[1.0] * 4, [longer * 1.0] * 4]
        )
        assert measured("lucky-lead", run) == share


def test_a_threshold_is_near_from_a_little_below_it():
    """Of bias 1 from 1/log^¼ d = .8 on."""
    held = [{0: 0.85**2}, {0: 0.75**2, 1: -0.1}]
    run = trajectory(held, held, still(2), bias=still(2))
    assert measured("few-features-at-t2", run) == 0.5


def test_luck_decides_by_how_much_oftener_the_lucky_win():
    """Both lucky pairs end alone; so does one of 24 others, of which one had been ordinary."""
    start = [{0: LUCKY}, {1: -LUCKY}, {2: ORDINARY, 3: ORDINARY}]
    run = trajectory(start, [{0: 0.9}, {1: 0.9}, {5: 0.9}], still(3))
    assert measured("luck-decides", run) == pytest.approx(1 - 1 / (3 * D - 4))


# --- endings ----------------------------------------------------------------------------------------------------------


def test_amplitudes_count_of_features_that_are_held():
    """One neuron has twice τ of its feature; its other feature is not held, and below the bound."""
    run = trajectory([{0: 1.0}] * 2, [{0: 0.9, 1: 0.05}, {0: 0.9}], [[2.2] * 4, [0.5] * 4])
    assert OF.objective.loss.temperature == 1
    assert measured("amplitudes-below-tau", run) == 0.5


def test_the_feature_with_fewest_neurons_of_its_own_counts():
    held = [{feature: 0.9} for feature in range(D)] + [{0: 0.9}, {1: -0.9}]
    for run, fewest in (
        (trajectory(held, held, still(D + 2)), 1),
        (trajectory(held, held[1:] + held[1:2], still(D + 2)), 1),
    ):
        assert measured("pure-neurons", run) == fewest
    assert measured("pure-neurons", trajectory(held, held[:5] * 2 + held[:4], still(D + 2))) == 0


def test_rare_features_are_what_a_small_network_is_to_lack():
    """Common features have neurons of their own, and of six rare ones one has."""
    assert STUDY.arm("few-neurons").recipe.data.minority == 6
    held = [{feature: 0.9} for feature in (0, 1, 2, 3, 4, 5, 11)]
    assert measured("model-size-needed", trajectory(held, held, still(7)), "few-neurons") == pytest.approx(1 / 6)


def test_losses_are_averaged_over_the_second_half_of_training():
    """Looks at steps 30 and 40 of 40."""
    loss = ("replica", "step"), [[9.0, 9.0, 1.0, 2.0]] * 2
    run = trajectory([{0: 1.0}], [{0: 1.0}], still(1)).assign(loss=loss, regret=loss)
    assert measured("average-loss", run) == 1.5
    assert measured("average-beats-optimal-learner", run, "heat-map") == 1.5


# --- curves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "name", "levels", "sign"),
    [
        ("minority-count-rises", "minority_count", (0.01, 0.03, 0.05), 1),
        ("minority-alignment-rises", "minority_cosine", (0.01, 0.03, 0.05), 1),
        ("cosine-rises", "cosine", (0.05, 0.075, 0.1), 1),
        ("mse-falls", "mse", (0.03, 0.05, 0.075), -1),
        ("minority-mse-falls", "mse_minority", (0.03, 0.05, 0.075), -1),
    ],
)
def test_ends_of_curves_are_compared_at_the_papers_noise_levels(id: str, name: str, levels: tuple, sign: int):
    """The further the noise level, the more a curve rises, by powers of 2."""
    noise = [0.01, 0.03, 0.05, 0.075, 0.1]
    rises = {level: 2.0**place / 64 for place, level in enumerate(noise)}
    values = np.array([[sign * rises[level] * end for end in (1.0, 0.3, 0.0)] for level in noise])
    arm = "figures-1-2" if levels[0] == 0.01 else "figures-3-4"
    axes, held = ("replica", "noise_std", "eps_min"), [values] * 2
    if arm == "figures-1-2":
        axes, held = (*axes, "step"), [np.repeat(values[..., None], 2, -1)] * 2
    run = xr.Dataset({name: (axes, held)}, {"replica": [0, 1], "noise_std": noise, "eps_min": [1.0, 0.5, 0.1]}).assign(
        last_step=(axes[:3], np.ones((2, 5, 3), int))
    )
    run = run.assign_coords(step=[0, 1]) if "step" in run.dims else run
    assert measured(id, run, arm) == pytest.approx(np.mean([rises[level] for level in levels]))


# --- what is measured -------------------------------------------------------------------------------------------------


def experiment(weight: torch.Tensor, noise: float, tokens: int = 4) -> GradientTraining:
    """One replica on four features along the first axes, each in four of ten pairs."""
    source = SparseTokensSource(torch.eye(6, 4)[None], torch.full((1, 4), 0.4), torch.tensor([noise]), tokens, 1.0, 1)
    source.means = True
    learner = TokenMLPNetwork(weight[None], tokens)
    return GradientTraining(source, learner, ContrastivePairs(InfoNCE(), 32), SGD(), {}, Streams(0, [0]))


def test_what_a_head_reads_from_the_features_themselves_lacks_what_the_noise_of_mean_tokens_hides():
    with torch.no_grad():
        found = probes.represented(experiment(torch.eye(4, 6), noise=0.4))["ideal_error"]
    assert float(found.values) == pytest.approx(1, abs=0.1)


def test_signals_push_to_either_side():
    """Of the first neuron two of five, of the second none: √(10 √log 4/4) is 1.7."""
    codes = torch.tensor([[[2.0, 0, 0, 0], [-2.0, 0, 0, 0], [1.5, 0, 0, 0], [0, 0, 0, 2.0], [0, 0, 0, 0]]])
    e = experiment(torch.tensor([[0.1, 0, 0, 0, 0, 0], [0, 3.0, 0, 0, 0, 0]]), noise=0.1)
    assert float(samples._signal_tail(e, codes).values) == pytest.approx(2 / 10)


def test_how_far_noise_pushes_does_not_depend_on_the_length_of_neurons():
    """Noise of variance 1: beyond log²4/√4 = .96 in 34 of 100 samples."""
    with sampling({"ASSUMED_PAIRS": 4000, "FEW_PAIRS": 4000}), torch.no_grad():
        for size in (1e-3, 1.0, 10.0):
            found = samples.data(experiment(size * torch.eye(2, 6), noise=2.0))
            assert float(found["noise_tail"].values) == pytest.approx(0.336, abs=0.03)


def test_regret_is_towards_the_best_multiple_of_the_optimal_learner():
    e = experiment(torch.diag(torch.tensor([1.0, 0.8, 0.6, 0.4, 0.0, 0.0])), noise=0.1)
    with torch.no_grad():
        regret = float(probes.with_regret(e)["regret"].values)
        at = probes._frozen(e, "regret", e.objective.pairs)
        best = at.optimal(e.source.dictionary)
        over = [float(at.pseudo_loss(at.w) - at.pseudo_loss(2.0**power * best)) for power in range(-6, 8)]
    assert regret == pytest.approx(max(over))
    assert min(over) < max(over) - 0.1
