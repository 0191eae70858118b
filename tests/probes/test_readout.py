"""Read-outs of features whose classes are known."""

import math

import pytest
import torch

from featscope.probes.readout import (
    features_of,
    mean_colour,
    one_thread,
    regression_score,
    silhouette,
    tsne,
)


def clusters(count: int, spread: float, seed: int):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.eye(3, 6)
    return centres[labels] + spread * torch.randn(count, 6, generator=generator), labels


def test_silhouette_tells_clusters_from_a_cloud():
    features, labels = clusters(90, 0.02, 0)
    assert silhouette(features[:, :3], labels) > 0.8
    assert abs(silhouette(*clusters(90, 50.0, 0))) < 0.1


@pytest.mark.parametrize("labels", [[0, 1], [2, 0, 1], [1, 1, 1], [0]])
def test_of_one_class_or_of_one_sample_each_there_is_no_silhouette(labels):
    assert math.isnan(silhouette(torch.randn(len(labels), 3), torch.tensor(labels)))


def test_regression_recovers_a_linear_target_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(400, 4, generator=generator).split(200)
    mix, noise = torch.randn(4, 2, generator=generator), torch.randn(400, 2, generator=generator)
    assert regression_score(a, a @ mix, b, b @ mix) > 0.99
    assert regression_score(a, noise[:200], b, noise[200:]) < 0.05


@pytest.mark.parametrize(("features", "place"), [(torch.ones(60, 8), 0.0), (torch.full((60, 8), torch.nan), torch.nan)])
def test_a_map_of_features_that_say_nothing_does_not_end_the_process(features, place):
    torch.testing.assert_close(tsne(features), torch.full((60, 2), place), equal_nan=True)
    assert tsne(features[:1]).isnan().all()


def test_tsne_keeps_clusters_together():
    features, labels = clusters(60, 0.02, 0)
    places = tsne(features)
    assert places.shape == (60, 2)
    distance = torch.cdist(places, places)
    distance.fill_diagonal_(torch.inf)
    assert (labels[distance.argmin(1)] == labels).all()


def test_the_mean_colour_has_two_opponents():
    red, yellow = torch.zeros(3, 4, 4), torch.zeros(3, 4, 4)
    red[0], yellow[:2] = 1, 0.5
    torch.testing.assert_close(mean_colour(torch.stack([red, yellow])), torch.tensor([[1, -0.5], [0, -0.5]]))


def test_features_of_images_do_not_depend_on_how_many_go_through_at_once():
    pixels = torch.randint(0, 256, (7, 3, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    network, seen = torch.nn.Flatten(), []
    network.register_forward_hook(lambda _, inputs, output: seen.append(len(output)))
    assert torch.equal(features_of(network, pixels, at_once=3), pixels.flatten(1).float() / 255)
    assert seen == [3, 3, 1]


def test_read_outs_take_one_thread_of_blas_and_leave_the_others():
    from threadpoolctl import threadpool_info

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    assert set(one_thread(threads)()) == {1}
    assert threads() == before
