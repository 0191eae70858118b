"""NT-Xent and the nuclear norm in two processes are those of one with all rows."""

import subprocess
import sys

import one_of_two
import pytest
import torch
from one_of_two import PENALTY, WORLD, network, views
from torch import distributed

from featscope.losses import NTXent


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch has no gloo here")
def test_loss_and_gradient_are_those_of_one_process(tmp_path):
    """In processes of their own: one that is forked from a process with threads can wait for them for ever."""
    command = [sys.executable, one_of_two.__file__]
    both = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for rank in range(WORLD)
    ]
    try:
        said = [one.communicate(timeout=120)[1] for one in both]
        assert [one.returncode for one in both] == [0, 0], said
    finally:
        for one in both:
            one.kill()
    net = network()
    loss = NTXent()(net(views(1)), net(views(2))) + PENALTY(net(views(1)))
    loss.backward()
    for rank in range(WORLD):
        found, gradients, refused = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(found, loss.detach())
        for gradient, parameter in zip(gradients, net.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad)
        wrong = ["once_differentiable"] + (
            ["batches of 4, 5: "] * 2 + ["batches of 4, 0: "] * 2 + ["has shape [0, 3]"] * 2
        )  # neither waits for the other
        for what, message in zip(wrong, refused, strict=True):
            assert what in message
        assert "drop_last=True" in refused[1]
