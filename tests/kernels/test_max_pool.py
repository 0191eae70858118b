"""The largest of four neighbours in machine code against torch's."""

import pytest
import torch
from torch.nn.functional import max_pool2d

from featscope.kernels import BACKENDS
from featscope.kernels.max_pool import largest
from featscope.models import AlexNet
from featscope.streams import Streams


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (2, 3, 8, 64), (3, 2, 7, 5), (2, 1, 2, 3)])
@pytest.mark.parametrize("kind", ["ties", "numbers", "nan"])
def test_largest_and_gradient_are_to_the_bit_what_torch_has(shape, kind):
    x = random(*shape)
    if kind == "ties":
        x = x.round()
    if kind == "nan":
        x[random(*shape, 1)[..., 0] > 0.5] = torch.nan
    found = []
    for pool in (largest, lambda x: max_pool2d(x, 2)):
        seen = x.clone().requires_grad_()
        out = pool(seen)
        out.backward(random(*out.shape[::-1]).permute(3, 2, 1, 0))  # whose memory lies otherwise
        found.append((out.detach(), seen.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_network_is_the_same_in_machine_code_and_in_torch(monkeypatch):
    network, images = AlexNet(width=4).build(None, Streams(0, [0]).at("learner")), random(3, 3, 32, 32)
    found = []
    for kernels in BACKENDS:
        monkeypatch.setenv("FEATSCOPE_KERNELS", kernels)
        network.zero_grad()
        network(images).square().sum().backward()
        found.append([network(images), *(p.grad.clone() for p in network.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
