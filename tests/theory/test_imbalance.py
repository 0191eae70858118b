"""Closed forms against brute-force sampling in NumPy, exact special cases, and the numbers of the specification.

Everything is float64, and nothing of the package but `theory` is used. Sampled checks fix their seed; each says its
false-alarm rate at another one.
"""

from dataclasses import replace
from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from featscope.theory import imbalance as theory

# --- data -----------------------------------------------------------------------------------------------------------


def token_codes(
    rng: np.random.Generator, p: np.ndarray, tokens: int, token_activity: float, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Codes z of positive pairs, [*shape, token, feature]: common signs, masks drawn until a token is on."""
    signs = rng.choice([-1.0, 1.0], size=(*shape, 1, len(p))) * (rng.random((*shape, 1, len(p))) < p)
    pair = []
    for _ in range(2):
        mask = rng.random((*shape, tokens, len(p))) < token_activity
        while (empty := ~mask.any(axis=-2)).any():
            again = rng.random((int(empty.sum()), tokens)) < token_activity
            np.moveaxis(mask, -2, -1)[empty] = again
        pair.append(signs * mask)
    return pair[0], pair[1]


def test_the_last_features_are_the_minority():
    np.testing.assert_allclose(theory.activities(5, 2, 0.3, 0.1), [0.1, 0.1, 0.1, 0.03, 0.03])
    assert (theory.activities(3, 0, 0.3, 0.1) == 0.1).all()
    assert (theory.activities(3, 3, 0.5, 0.1) == 0.05).all()


@pytest.mark.parametrize(
    ("minority", "eps_min", "activity"), [(4, 0.5, 0.1), (-1, 0.5, 0.1), (1, 0.5, 1.1), (1, -0.5, 1.0)]
)
def test_impossible_data_are_refused(minority: int, eps_min: float, activity: float):
    with pytest.raises(ValueError, match="must"):
        theory.activities(3, minority, eps_min, activity)


@pytest.mark.parametrize(("tokens", "q"), [(1, 0.4), (3, 0.3), (4, 0.7), (4, 1.0)])
def test_token_laws_are_those_of_sampled_masks(tokens: int, q: float):
    """300,000 pairs, two quantities of two features: 5 standard errors each, false alarms below 1e-5 in all."""
    p = np.array([0.5, 0.2])
    z, other = token_codes(np.random.default_rng(0), p, tokens, q, (300_000,))
    total, total_other = z.sum(axis=1), other.sum(axis=1)
    square = p * theory.token_moments(tokens, q)[1]
    for sample, expected in (
        (total * total_other, theory.pair_correlation(p, tokens, q)),  # L² E[z̄ z̄⁺]
        (np.square(total / tokens), square),
    ):
        error = sample.std(axis=0) / sqrt(len(z))
        assert (np.abs(sample.mean(axis=0) - expected) <= 5 * error + 1e-12).all()


def test_with_every_token_on_the_correlation_is_the_square_of_their_number():
    np.testing.assert_allclose(theory.pair_correlation(np.array([0.1, 0.03]), 4), [1.6, 0.48])


# --- Stage 1 --------------------------------------------------------------------------------------------------------


def stage1(**changes: object) -> theory.PairStage1:
    """d = 20, d1 = 500, 10 minority features: the size of the specification's checks of T1."""
    options: dict = {"activities": theory.activities(20, 10, 0.3, 0.1), "tokens": 4, "input_dim": 500}
    options |= {"noise_variance": 0.03**2 / 4, "lr": 0.05, "weight_decay": 1e-3, "keys": 256, "anchors": 256}
    return theory.PairStage1(**options | changes)


SIZES = {
    # small batches and long steps, so that chance outweighs growth and every term of its law is at stake
    "in batch": {"p": [0.5, 0.5, 0.15], "input_dim": 5, "tokens": 3, "q": 0.3, "s2": 0.05, "anchors": 3, "lr": 2.0},
    "wider": {"p": [0.4, 0.4, 0.1, 0.1], "input_dim": 12, "tokens": 3, "q": 1.0, "s2": 0.04, "anchors": 8, "lr": 0.1},
    "pairs": {"p": [0.6, 0.2], "input_dim": 4, "tokens": 1, "q": 1.0, "s2": 0.2, "anchors": 2, "lr": 6.0},
    # three negatives of its own for each anchor
    "own keys": {"p": [0.5, 0.1], "input_dim": 6, "tokens": 2, "q": 1.0, "s2": 0.1, "anchors": 5, "keys": 4, "lr": 0.3},
}
DECAY, TEMPERATURE = 0.3, 2.0


def simulated_weights(size: dict, networks: int, steps: int, seed: int = 0) -> np.ndarray:
    """[network, neuron, input]: w(t) in units of its initial norm, after steps of InfoNCE.

    Networks are so small that logits are uniform. Written from P (1), (4), (21): tokens, attention, one activation
    for each token, softmax over keys, b = 0. The dictionary is the first unit vectors. A network has d1 neurons that
    start along the axes, which stands for all initialisations at once.
    """
    rng, p, tokens, q = np.random.default_rng(seed), np.array(size["p"]), size["tokens"], size["q"]
    d, d1, anchors = len(p), size["input_dim"], size["anchors"]
    w = np.broadcast_to(np.eye(d1) * 1e-6, (networks, d1, d1))

    def attended(z: np.ndarray) -> np.ndarray:
        x = rng.normal(size=(*z.shape[:-1], d1)) * sqrt(size["s2"] * tokens)
        x[..., :d] += z
        return np.broadcast_to(x.mean(axis=-2, keepdims=True), x.shape)

    for _ in range(steps):
        z, other = token_codes(rng, p, tokens, q, (networks, anchors))
        x = attended(z)
        h_anchor = np.einsum("nktc,nmc->nkm", x, w)
        h_own = np.einsum("nktc,nmc->nkm", attended(other), w)
        h_keys = h_own[:, None].repeat(anchors, axis=1)  # [network, anchor, key, neuron]
        if "keys" in size:
            negatives = attended(token_codes(rng, p, tokens, q, (networks, anchors, size["keys"] - 1))[0])
            h_keys = np.concatenate([h_own[:, :, None], np.einsum("nkstc,nmc->nksm", negatives, w)], axis=2)
        logits = np.exp(np.einsum("nkm,nksm->nks", h_anchor, h_keys) / TEMPERATURE)
        logits /= logits.sum(axis=2, keepdims=True)
        pull = np.einsum("nks,nksm->nkm", logits, h_keys) - h_own
        gradient = np.einsum("nkm,nkc->nmc", pull, x.sum(axis=2)) / anchors / TEMPERATURE
        w = (1 - size["lr"] * DECAY) * w - size["lr"] * gradient
    return w / 1e-6


def stage1_of(size: dict) -> theory.PairStage1:
    p, anchors = np.array(size["p"]), size["anchors"]
    options = (p, size["tokens"], size["input_dim"], size["s2"], size["lr"], DECAY, size.get("keys", anchors), anchors)
    return theory.PairStage1(*options, temperature=TEMPERATURE, loss_scale="1", token_activity=size["q"])


def standard_errors_apart(samples: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return (samples.mean(axis=0) - expected) / (samples.std(axis=0) / sqrt(len(samples)))


@pytest.mark.parametrize("name", SIZES)
def test_stage_1_is_that_of_simulated_training(name: str):
    """20,000 networks, 2 steps: every expected amplitude and energy within 4.5 standard errors, of .01 to 2 %.

    29 comparisons, so 2e-4 false alarms for normal means; the tails of squares raise it to some 1e-3. Population
    gradients alone are 10 standard errors off and more.
    """
    size, steps = SIZES[name], 2
    w, model, d = simulated_weights(size, 20_000, steps), stage1_of(size), len(size["p"])
    squares = np.square(w).mean(axis=1)
    energies = np.concatenate([squares[:, :d], squares[:, d:].sum(axis=1, keepdims=True)], axis=1)
    assert np.abs(standard_errors_apart(energies, model.energies(steps)[-1])).max() < 4.5
    population = replace(model, anchors=np.inf).energies(steps)[-1]
    assert np.abs(standard_errors_apart(energies, population)).max() > 10
    amplitudes = np.diagonal(w, axis1=1, axis2=2)
    assert np.abs(standard_errors_apart(amplitudes[:, :d], model.amplitudes(steps)[-1])).max() < 4.5
    outside = amplitudes[:, d:].mean(axis=1, keepdims=True)
    assert np.abs(standard_errors_apart(outside, np.array([model.non_feature_factor**steps]))).max() < 4.5


@pytest.mark.parametrize(("anchors", "keys"), [(2, 2), (3, 3), (2, 3)])
def test_one_step_is_the_sum_over_all_batches(anchors: int, keys: int):
    """One feature, no noise, L = 2: every batch of a few samples with its probability."""
    p, q, lr, decay = 0.7, 0.4, 0.9, 0.1
    both, one = q**2 / (1 - (1 - q) ** 2), 2 * q * (1 - q) / (1 - (1 - q) ** 2)
    shown = {0.5: one, 1.0: both}  # N/L
    pairs = [((0.0, 0.0), 1 - p)]
    pairs += [((s * u, s * v), p / 2 * shown[u] * shown[v]) for s, u, v in product((-1, 1), shown, shown)]
    expected = 0.0
    for batch in product(pairs, repeat=anchors):
        x, y = np.array([pair for pair, _ in batch]).T
        chance = np.prod([probability for _, probability in batch])
        if keys == anchors:
            expected += chance * (1 - lr * decay + lr * 4 * ((x * y).mean() - x.mean() * y.mean())) ** 2
        else:  # the second moment of the mean over one set of negatives; x and y have one law
            square = p * (one / 4 + both)
            covariance = (1 - 1 / keys) * (x * y).mean()
            extra = (keys - 1) / keys**2 * square * np.square(x).sum() / anchors**2
            expected += chance * ((1 - lr * decay + lr * 4 * covariance) ** 2 + (lr * 4) ** 2 * extra)
    model = theory.PairStage1(np.array([p]), 2, 1, 0.0, lr, decay, keys, anchors, token_activity=q)
    assert model.energies(1)[1, 0] == pytest.approx(expected, rel=1e-12)


def test_growth_is_that_of_the_specification():
    """After 30 steps, K = 2048, d1 = 100, η = .02: minority 1.331, majority 2.570, the rest .9994 (S1.6)."""
    model = stage1(input_dim=100, lr=0.02, keys=2048, anchors=2048)
    majority, minority = model.amplitudes(30)[-1, [0, -1]]
    assert majority == pytest.approx(2.570, abs=5e-4)
    assert minority == pytest.approx(1.331, abs=5e-4)
    assert model.non_feature_factor**30 == pytest.approx(0.9994, abs=5e-5)
    assert model.growth_ratio(30) == pytest.approx(majority / minority)
    assert model.amplitudes(30).shape == (31, 20)


def test_the_stated_ratio_bounds_growth_at_first_and_not_later():
    model = stage1()
    assert model.stated_growth_ratio == pytest.approx(1 / 0.3)
    assert model.growth_ratio(10) < model.stated_growth_ratio < model.growth_ratio(40)


def test_linear_growth_starts_like_exponential_growth_and_ends_at_the_ratio_of_rates():
    p = theory.activities(4, 2, 0.25, 0.1)
    model = theory.PairStage1(p, 4, 9, 0.0, lr=0.05, weight_decay=0.0, keys=1e12, anchors=np.inf)
    assert model.linear_growth_ratio(np.array([0, 10])) == pytest.approx([1, 1.8 / 1.2])
    (late,) = model.linear_growth_ratio(np.array([10**9]))
    assert late == pytest.approx(model.stated_growth_ratio)


def test_what_is_outgrown_at_the_end_of_the_stage_is_in_units_of_the_stated_ratio():
    model = stage1()
    assert model.outgrown() == pytest.approx(model.growth_ratio(int(model.duration())) * 0.3)
    never = theory.PairStage1(np.array([0.5, 0.2]), 1, 9, 0.0, lr=1e-12, weight_decay=0.0, keys=8, anchors=8)
    assert np.isnan(never.outgrown())


def test_the_loss_as_printed_grows_slower_by_the_temperature():
    as_printed = stage1(temperature=5.0, loss_scale="1")
    np.testing.assert_allclose(as_printed.growth, stage1(lr=0.01, weight_decay=5e-3).growth)
    np.testing.assert_allclose(as_printed.energies(9), stage1(lr=0.01, weight_decay=5e-3).energies(9))
    np.testing.assert_allclose(stage1(temperature=5.0).growth, stage1().growth)


def test_population_energies_are_powers_of_the_growth_and_sum_to_one_at_the_start():
    model = stage1(anchors=np.inf)
    path = model.energies(7)
    np.testing.assert_allclose(path[7, :-1], model.growth**14 / 500)
    assert path[7, -1] == pytest.approx(480 / 500 * model.non_feature_factor**14)
    assert path[0].sum() == pytest.approx(1)
    assert path.shape == (8, 21)


@pytest.mark.parametrize(("minority", "steps"), [(0, 21), (10, 25)])
def test_the_duration_is_that_of_the_specification(minority: int, steps: int):
    """21 balanced and 25 with half of the features at ε = .3, from population gradients and with batches of 256."""
    p = theory.activities(20, minority, 0.3, 0.1)
    for anchors in (256, np.inf):
        assert stage1(activities=p, anchors=anchors).duration() == steps


def test_the_duration_without_chance_is_a_logarithm():
    model = stage1(activities=np.full(20, 0.1), anchors=np.inf)
    for share in (0.5, 0.8):
        expected = np.log(share * 480 / ((1 - share) * 20)) / (2 * np.log(model.growth[0] / model.non_feature_factor))
        assert model.duration(share) == np.ceil(expected)


def test_the_duration_is_the_first_step_that_reaches_the_threshold(monkeypatch):
    model = stage1(noise_variance=0.02, keys=32, anchors=32, lr=0.02)
    path = model.energies(400)
    share = path[:, :-1].sum(axis=1) / path.sum(axis=1)
    steps = int(model.duration(0.4))
    assert share[steps] >= 0.4 > share[steps - 1]
    monkeypatch.setattr(theory, "_LONGEST", 5000)
    assert model.duration(0.999) == np.inf


def test_the_share_of_chance_is_what_growth_leaves():
    assert np.abs(stage1(anchors=np.inf).share_of_chance(20)).max() < 1e-12
    model = stage1(keys=16, anchors=16)
    grown = replace(model, anchors=np.inf).energies(20)[-1]
    np.testing.assert_allclose(model.share_of_chance(20), 1 - grown / model.energies(20)[-1])
    assert model.share_of_chance(20).min() > 0


# --- census ---------------------------------------------------------------------------------------------------------

# d, r, c1 log d/d, p_1, d p_2, P's order of it, Monte Carlo of the lucky probability, P's bound
TABLE = [
    (9, 1.0, 0.493, 2.4e-2, 0.23, 1.02, 2.4e-2, 1.1e-1),
    (9, 0.8, 0.771, 8.4e-4, 0.85, 2.24, 8.1e-4, 3.1e-2),
    (9, 0.7, 1.006, 0, 1.38, 3.10, 0, 1.1e-2),
    (50, 1.0, 0.158, 3.9e-3, 0.21, 1.04, 3.6e-3, 1.9e-2),
    (50, 0.8, 0.247, 2.1e-4, 1.22, 4.19, 1.3e-4, 2.1e-3),
    (100, 1.0, 0.093, 1.9e-3, 0.21, 1.05, 1.7e-3, 9.6e-3),
    (100, 0.8, 0.145, 8.4e-5, 1.49, 5.41, 3.5e-5, 7.0e-4),
    (100, 0.5, 0.372, 1.3e-11, 13.2, 32.0, 0, 8.3e-9),
    (500, 1.0, 0.025, 3.7e-4, 0.21, 1.06, 3.1e-4, 1.9e-3),
    (500, 0.8, 0.039, 8.0e-6, 2.45, 9.75, 1.0e-6, 5.5e-5),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"d={row[0]},r={row[1]}")
def test_the_census_is_that_of_the_specification(row: tuple):
    """To the digits printed there; the Monte Carlo column within 4.5 of its standard errors (2e5 neurons) besides."""
    d, ratio, share, strong, ordinary, stated_ordinary, sampled, stated = row
    census = theory.Census(d, ratio)
    assert census.lucky_share == pytest.approx(share, abs=6e-4)
    assert census.strong_probability == pytest.approx(strong, rel=0.04)
    assert census.features_per_neuron == pytest.approx(ordinary, rel=0.025)
    assert census.stated_features_per_neuron == pytest.approx(stated_ordinary, rel=0.005)
    assert census.stated_lucky_probability == pytest.approx(stated, rel=0.05)
    lucky = census.lucky_probability
    assert lucky == pytest.approx(sampled, rel=0.05, abs=4.5 * sqrt(lucky / (2e5 * d)))
    assert lucky <= census.strong_probability * (1 + 1e-9)


def test_the_stated_bound_on_lucky_neurons_fails_for_ratios_below_one():
    for d in (50, 100, 500):
        assert theory.Census(d, 0.8).lucky_probability < 0.1 * theory.Census(d, 0.8).stated_lucky_probability


def test_census_laws_are_those_of_random_directions():
    """Each within 5 standard errors (at most 2 %): five sizes, 400,000 directions; false alarms below 1e-5."""
    rng = np.random.default_rng(0)
    for d, ratio, gamma in ((3, 1.0, 0.01), (4, 0.95, 0.2), (6, 0.9, 0.0), (12, 0.9, 0.05), (30, 1.0, 0.3)):
        census, count = theory.Census(d, ratio, gamma), 400_000
        squares = np.square(rng.normal(size=(count, d)))
        squares.sort(axis=1)
        squares /= squares.sum(axis=1, keepdims=True)
        c1, c2 = 2 * (1 + gamma) / ratio**2 * np.log(d) / d, 2 * (1 - gamma) * ratio**2 * np.log(d) / d
        per_neuron = (squares >= c2).sum(axis=1)
        error = per_neuron.std() / sqrt(count)
        assert abs(per_neuron.mean() - census.features_per_neuron) < 5 * error
        lucky = ((squares[:, -1] >= c1) & (squares[:, -2] <= c2)).mean()
        assert abs(lucky / d - census.lucky_probability) < 5 * sqrt(lucky / count) / d


def test_the_lucky_probability_is_exact_where_others_cannot_interfere():
    """c1 + c2 > d/log d: the rest is too small to reach the ordinary share."""
    for d, ratio in ((3, 1.0), (4, 1.0), (9, 0.8)):
        census = theory.Census(d, ratio)
        assert census.lucky_share + census.ordinary_share > 1
        assert census.lucky_probability == pytest.approx(census.strong_probability, rel=1e-7)


def test_rare_lucky_neurons_are_those_of_conditioned_directions():
    """Where plain sampling sees none: the first coordinate from its law above the threshold, the rest at random.

    d = 100, r = .6, 200,000 draws of probability 5e-10; within 5 standard errors (2.5 % each). At r = .5, 6 million
    draws gave (1.363 ± .054) e-15 once.
    """
    rng, census, count = np.random.default_rng(0), theory.Census(100, 0.6), 200_000
    first = stats.beta.isf(rng.random(count) * census.strong_probability, 0.5, 49.5)
    rest = np.square(rng.normal(size=(count, 99)))
    kept = (rest.max(axis=1) / rest.sum(axis=1) * (1 - first) <= census.ordinary_share).mean()
    expected = census.lucky_probability / census.strong_probability
    assert 1e-3 < expected < 0.1
    assert kept == pytest.approx(expected, abs=5 * sqrt(expected / count))
    assert theory.Census(100, 0.5).lucky_probability == pytest.approx(1.363e-15, abs=0.2e-15)


# --- the end of training --------------------------------------------------------------------------------------------


def test_the_optimal_learner_shares_a_feature_among_its_lucky_neurons():
    dictionary = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 3)))[0]
    lucky = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=bool)
    amplitude = np.array([[-0.2, 5.0, 1.0], [1.0, 1.0, 1.0], [0.3, -5.0, -1.0], [-9.0, 2.0, -9.0]])
    learner = theory.optimal_learner(dictionary, lucky, amplitude, temperature=4.0, kappa=3.0)
    np.testing.assert_allclose(learner @ dictionary, [[-3, 0, 0], [0, 0, 0], [3, 0, 0], [0, 6, 0]], atol=1e-13)
    assert np.square(learner).sum() == pytest.approx(4 * 9 * (1 / 2 + 1))  # Σ_j τκ²/|M_j*|
    lucky[3, 0] = True
    with pytest.raises(ValueError, match="one feature"):
        theory.optimal_learner(dictionary, lucky, amplitude, 4.0, 3.0)


def test_the_stated_energies_are_squares_of_frequencies():
    np.testing.assert_allclose(theory.stated_feature_energy(theory.activities(3, 1, 0.5, 0.1)), [1, 1, 0.25])


@pytest.mark.parametrize(("features", "ratio"), [(3, 0.5), (20, 0.3), (20, 0.9)])
def test_how_often_a_neuron_is_ordinary_for_two_features_is_that_of_random_directions(features: int, ratio: float):
    """100,000 directions: 5 standard errors over pairs that share nothing, false alarms below 1e-5."""
    census = theory.Census(features, ratio)
    share = np.square(np.random.default_rng(0).normal(size=(100_000, features)))
    both = (share[:, :2] >= census.ordinary_share * share.sum(axis=1, keepdims=True)).all(axis=1)
    assert abs(both.mean() - census.shared_probability) < 5 * np.sqrt(both.var() / len(both)) + 1e-12
