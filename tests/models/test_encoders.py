"""Convolutional encoders and reading their activations."""

import pytest
import torch
from torch import nn

from featscope.models import AlexNet, ProjectionHead, ResNet18, WideResNet, activations
from featscope.models.encoders import _BasicBlock, _Block, initialise
from featscope.options import ConfigError
from featscope.streams import Streams

CONFIGS = [AlexNet(width=4), ResNet18(width=4), WideResNet(depth=10, widen=1)]


def build(config, replica: int = 0):
    return config.build(None, Streams(0, [replica]).at("learner"))


@pytest.fixture
def images():
    return torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("config", CONFIGS)
def test_weights_are_a_function_of_the_address(config, images):
    first, again, other = build(config), build(config), build(config, 1)
    assert torch.equal(first(images), again(images))
    assert not torch.equal(first.filters, other.filters)
    assert first(images).shape == (6, first.features)


@pytest.mark.parametrize("config", CONFIGS)
def test_an_images_features_do_not_depend_on_its_batch(config, images):
    network = build(config).train()
    torch.testing.assert_close(network(images)[2:3], network(images[2:3]))


@pytest.mark.parametrize("config", CONFIGS)
def test_layers_are_relus_that_can_be_read(config, images):
    network = build(config)
    read = activations(network, network.layers, images, batch=4)
    assert list(read) == list(network.layers)
    for name, values in read.items():
        assert isinstance(network.get_submodule(name), nn.ReLU)
        assert len(values) == 6
        assert values.min() == 0
        assert values.max() > 0
    torch.testing.assert_close(read[network.layers[-1]].mean((-2, -1)), network(images))


@pytest.mark.parametrize("config", CONFIGS)
def test_pixels_are_scaled_about_the_middle_before_the_first_layer(config, images):
    network, seen = build(config), []
    network.get_submodule("body.conv1").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(images)
    torch.testing.assert_close(seen[0], 4 * images - 2)


def test_alexnet_has_its_five_layers_and_two_poolings(images):
    network = build(AlexNet(width=4))
    shapes = [tuple(m.shape[1:]) for m in activations(network, network.layers, images[:1]).values()]
    assert shapes == [(4, 16, 16), (8, 8, 8), (12, 4, 4), (8, 4, 4), (8, 4, 4)]
    assert network.filters.shape == (4, 3, 5, 5)


def test_groups_of_a_wide_resnet_halve_the_image_twice(images):
    network = build(WideResNet(depth=10, widen=2))
    shapes = [tuple(m.shape[1:]) for m in activations(network, network.layers, images[:1]).values()]
    assert shapes == [(16, 32, 32), (32, 32, 32), (64, 16, 16), (128, 8, 8)]


@pytest.mark.parametrize(("config", "groups"), [(ResNet18(width=16), 8), (ResNet18(width=12), 4)])
def test_norms_are_over_groups_of_channels(config, groups):
    norm = build(config).get_submodule("body.norm")
    assert isinstance(norm, nn.GroupNorm)
    assert norm.num_groups == groups


@pytest.mark.parametrize(("inside", "outside", "stride"), [(4, 4, 1), (4, 6, 2)])
def test_blocks_add_their_input(inside, outside, stride):
    """To the last bit of what is printed: norms and ReLUs before the convolutions, and after them."""
    x, streams = torch.randn(2, inside, 8, 8, generator=torch.Generator().manual_seed(0)), Streams(0, [0])
    wide = initialise(_Block(inside, outside, stride), streams.at("wide"))
    entry = wide.norm1(x).relu()
    kept = x if stride == 1 else wide.shortcut(entry)
    torch.testing.assert_close(wide(x), kept + wide.conv2(wide.norm2(wide.conv1(entry)).relu()))
    basic = initialise(_BasicBlock(inside, outside, stride), streams.at("basic"))
    kept = x if stride == 1 else basic.shortcut(x)
    changed = basic.norm2(basic.conv2(basic.norm1(basic.conv1(x)).relu()))
    torch.testing.assert_close(basic(x), (kept + changed).relu())


def test_initial_weights_are_he_normal():
    network = build(AlexNet(width=64))
    weight = network.get_parameter("body.conv3.weight").detach()
    assert float(weight.std()) == pytest.approx((2 / weight[0].numel()) ** 0.5, rel=0.02)
    assert not network.get_parameter("body.conv3.bias").any()


def test_depth_counts_convolutions():
    network = build(WideResNet(depth=16, widen=2))
    kernels = [m for m in network.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(kernels) == 13  # 6 n + 1 with n = 2; the shortcuts' 1 x 1 convolutions make up the depth


def test_resnet18_has_the_original_s_weights_but_for_the_stem_and_the_classifier(images):
    """11,689,512 of ImageNet's network, less 513,000 of its classifier, and 3 x 3 in place of 7 x 7 in the stem."""
    network = build(ResNet18())
    assert sum(p.numel() for p in network.parameters()) == 11_689_512 - 513_000 - 64 * 3 * (49 - 9)
    assert [m.shape[-1] for m in activations(network, network.layers, images[:1]).values()] == [32, 32, 16, 8, 4]
    assert network.features == 512


def test_activations_leaves_no_hook_and_works_on_any_module(images):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5), nn.ReLU())
    read = activations(network, ["1", ""], images)
    torch.testing.assert_close(read[""], read["1"].relu())
    means = activations(network, ["1"], images, batch=4, reduce=lambda output: output.mean(-1))
    torch.testing.assert_close(means["1"], read["1"].mean(-1))
    assert not network[1]._forward_hooks
    with pytest.raises(AttributeError):
        activations(network, ["nothing"], images)


def test_activations_are_those_before_a_relu_in_place_and_a_wrong_name_leaves_no_hook(images):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 5), nn.ReLU(inplace=True))
    torch.testing.assert_close(activations(network, ["1"], images)["1"], network[1](images.flatten(1)))
    with pytest.raises(AttributeError):
        activations(network, ["1", "nothing"], images)
    assert not network[1]._forward_hooks


def test_activations_of_a_submodule_that_does_not_run_in_a_part_are_not_those_of_another(images):
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu, self.runs = nn.ReLU(), iter([True, False])

        def forward(self, x):
            return self.relu(x) if next(self.runs) else x

    with pytest.raises(KeyError, match="relu"):
        activations(First(), ["relu"], images, batch=3)


def test_head():
    head = ProjectionHead(hidden=7, outputs=3).build(5, Streams(0, [0]).at("head"))
    assert head(torch.randn(4, 5)).shape == (4, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: AlexNet(width=0),
        lambda: ResNet18(width=0),
        lambda: WideResNet(depth=12),
        lambda: WideResNet(widen=0),
        lambda: ProjectionHead(hidden=0),
    ],
)
def test_wrong_options_are_named(wrong):
    with pytest.raises(ConfigError, match="out of range"):
        wrong()
