"""Parts of the study of sparse parities: starts, losses, searches, and what networks are judged by."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from featscope.data import ParityPrompts
from featscope.models import ReLULinearAttention, in_dictionary
from featscope.streams import Streams
from featscope.studies.icl_parity import IclParity, endless, probes, prompted, trained
from featscope.studies.icl_parity.arms import OFTEN

STREAMS = Streams(0, [0, 1])
STUDY = IclParity().smallest()


def source_of(*options, **more):
    return ParityPrompts(*options, **more).build(STREAMS.at("dictionary"))


def test_half_of_the_heads_at_a_start_are_positive_and_their_weights_have_the_scale():
    network = trained.RandomHeads(20, 0.3).build(source_of(), STREAMS.at("weights"))
    assert network.signs.sum(1).tolist() == [0, 0]
    assert float(network.weights.detach().std()) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("decay", [1e-4, 0.2])
def test_the_penalty_is_the_sum_of_squared_weights_times_its_strength(decay):
    source = source_of(4, 2)
    network = trained.RandomHeads(6).build(source, STREAMS.at("weights"))
    of, without = (trained.PopulationHinge(each).build(source, network, STREAMS) for each in (decay, 0.0))
    of.to(torch.float64)
    without.to(torch.float64)
    network = network.double()
    found = (of(network, source, None) - without(network, source, None)) / decay
    wanted = [sum(float(w) ** 2 for w in one.flatten()) for one in network.weights.detach()]
    torch.testing.assert_close(found, torch.tensor(wanted).double())


def test_margins_above_one_cost_nothing():
    every = endless.EveryPrompt(source_of(4, 2))
    for margin, loss in ((3.0, 0.0), (1.0, 0.0), (0.25, 0.75), (-2.0, 3.0)):
        found = every.hinge(torch.full_like(every.labels, margin))
        torch.testing.assert_close(found, torch.full_like(found, loss))


def test_a_network_that_says_nothing_has_loss_one_and_is_right_in_half_of_the_cases():
    experiment = STUDY.arm(OFTEN).recipe.build(STREAMS)
    experiment.learner.weights.data.zero_()
    found = probes.trained(experiment)
    for name, wanted in {"inner_loss": 1.0, "outer_loss": 1.0, "hinge": 1.0, "accuracy": 0.5}.items():
        torch.testing.assert_close(found[name].values.double(), torch.full((2,), wanted).double())


def test_trained_networks_are_judged_by_fresh_prompts_of_important_tasks():
    """Of which one that looks at the first two features alone gets every one right, whatever it was trained on."""
    source, seen = source_of(8, 2, samples=3, others=0.5), []

    class KnowsThePair(ReLULinearAttention):
        def forward(self, prompts):
            seen.append(prompts)
            return (prompts[..., -1, :-1] @ source.dictionary.to(prompts))[..., :2].prod(-1)

    learner = KnowsThePair(torch.ones(2, 1), torch.zeros(2, 1, 8, 8))
    accuracy, hinge = probes._on_prompts(SimpleNamespace(source=source, learner=learner, streams=STREAMS))
    assert accuracy.tolist() == [1, 1]
    assert hinge.amax() < 1e-5
    assert {one.shape[2] for one in seen} == {probes.SHOWN + 1}
    assert not any(torch.equal(seen[0], later) for later in seen[1:])


def test_a_searched_network_is_one_of_turned_matrices():
    source = source_of(4, 2)
    g, signs = source.dictionary, torch.tensor([[1.0, -1.0, 1.0]] * 2).double()
    v, moments, queries = (STREAMS.at("values", n).normal(n, 4, dtype=torch.float64) for n in (12, 3, 5))
    v = v.unflatten(1, (3, 4))
    turned = ReLULinearAttention(signs, g[:, None] @ v @ g.mT[:, None])
    own = trained.SearchedNetwork(signs, v, g, diagonal=False)
    torch.testing.assert_close(own.answer_all(moments, queries), turned.answer_all(moments, queries))


def test_the_smallest_margin_becomes_sharp_by_a_factor_a_step():
    objective = trained.LeastNormLoss(source_of(4, 2))
    rule, found = trained.Sharpening(100).build(None), []
    for step in (0, 50, 100, 120):
        rule(SimpleNamespace(objective=objective), step)
        found.append(float(objective.get_buffer("sharpness")[0]))
    assert found == pytest.approx([10, 3000**0.5, 300, 300])


def test_what_a_search_makes_small_is_the_norm_at_a_margin_of_one():
    recipe = STUDY.arm("search-d=4").recipe
    experiment = replace(recipe, learner=trained.NearConstruction(noise=0.02)).build(STREAMS)
    network, sharp = experiment.learner, experiment.objective.get_buffer("sharpness")
    margin = experiment.objective.prompts.margins(network).flatten(1).amin(1)
    norm = network.weights.square().flatten(1).sum(1) / margin.square()
    loss = experiment.objective(network, None, None)
    sharp.fill_(1e5)
    torch.testing.assert_close(experiment.objective(network, None, None).exp(), norm, rtol=1e-3, atol=0)
    assert (loss.exp() > norm).all()  # a smooth margin is below the smallest


def test_matrices_that_are_diagonal_in_the_features_are_told_as_such():
    source = source_of(4, 2)
    diagonals = STREAMS.at("diagonals").normal(3, 4, dtype=torch.float64)[0]
    found = probes.in_features(in_dictionary(diagonals, source.dictionary), source)
    torch.testing.assert_close(found, torch.diag_embed(diagonals).expand(2, -1, -1, -1))


def test_patterns_are_covered_by_heads_of_the_labels_sign():
    signs, diagonals = (torch.tensor(one)[None] for one in endless.built("large", ParityPrompts(8, 4)))
    matrices = torch.diag_embed(diagonals)
    assert probes._covered(signs, matrices, 4).tolist() == [1]
    assert probes._covered(signs.abs(), matrices, 4).tolist() == [0.5]  # labels of -1 have no head then


def test_noise_in_what_a_network_keeps_has_a_mean_of_signs_in_each_direction():
    """So its power is the rank of the projection, digits and one more, over the number of examples."""
    samples = 20
    learner = prompted.Prompted(ParityPrompts(4, 2, samples=samples), 4000).build(STREAMS.at("start"))
    learner(STREAMS.at("batch"))
    wanted = torch.tensor([[2.0, 3.0]] * 2).double()
    torch.testing.assert_close(samples * learner.mean("noise_power"), wanted, rtol=0.05, atol=0)
