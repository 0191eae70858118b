"""NT-Xent in two processes is that of one with all views."""

import os
import socket

import pytest
import torch
from torch import distributed, multiprocessing, nn

from featscope.losses import NTXent

SIZE, WORLD = 4, 2


def views(seed: int) -> torch.Tensor:
    return torch.randn(WORLD * SIZE, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(5, 3).double()


def work(rank: int, port: int, out: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    net = nn.parallel.DistributedDataParallel(network())
    own = slice(rank * SIZE, (rank + 1) * SIZE)
    loss = NTXent()(net(views(1)[own]), net(views(2)[own]))
    loss.backward()
    total = loss.detach().clone()
    distributed.all_reduce(total)
    refused = ""
    try:
        NTXent()(*torch.randn(2, SIZE + rank, 3))
    except ValueError as error:
        refused = str(error)
    torch.save([total / WORLD, [p.grad for p in net.parameters()], refused], f"{out}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch has no gloo here")
def test_loss_and_gradient_are_those_of_one_process(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(work, (port, str(tmp_path)), nprocs=WORLD, start_method="fork")  # quick
    net = network()
    loss = NTXent()(net(views(1)), net(views(2)))
    loss.backward()
    for rank in range(WORLD):
        found, gradients, refused = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(found, loss.detach())
        for gradient, parameter in zip(gradients, net.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad)
        assert "batches of 4, 5" in refused
        assert "drop_last=True" in refused
