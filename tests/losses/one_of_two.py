"""One of two processes that share a batch: ``python one_of_two.py RANK FOLDER``."""

import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn

from featscope.losses import NTXent, NuclearNorm
from featscope.losses.processes import gathered

SIZE, WORLD = 4, 2
PENALTY = NuclearNorm(0.3, gather=True)


def views(seed: int) -> torch.Tensor:
    """Those of both processes."""
    return torch.randn(WORLD * SIZE, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def network() -> nn.Linear:
    """The same in both."""
    torch.manual_seed(0)
    return nn.Linear(5, 3).double()


def work(rank: int, out: str) -> None:
    """Save the mean loss over processes, gradients, and what is said of a second one and of batches of wrong sizes."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=WORLD)
    net = nn.parallel.DistributedDataParallel(network())
    own = slice(rank * SIZE, (rank + 1) * SIZE)
    loss = NTXent()(net(views(1)[own]), net(views(2)[own])) + PENALTY(net(views(1)[own]))
    loss.backward()
    total = loss.detach().clone()
    distributed.all_reduce(total)
    refused = []
    rows = torch.ones(SIZE, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(gathered(rows).square().sum(), rows, create_graph=True)
    try:
        slope.sum().backward()
    except RuntimeError as error:
        refused.append(str(error))
    for size in (SIZE + rank, SIZE * (1 - rank), 0):
        for loss in (lambda rows: NTXent()(rows, rows), PENALTY):
            try:
                loss(torch.ones(size, 3))
            except ValueError as error:
                refused.append(str(error))
    torch.save([total / WORLD, [p.grad for p in net.parameters()], refused], f"{out}/{rank}.pt")
    while not Path(f"{out}/{1 - rank}.pt").exists():  # the other may still read what this one has sent
        time.sleep(0.02)
    os._exit(0)  # without gloo's own end, in which one process in many aborts with its threads still there


if __name__ == "__main__":
    work(int(sys.argv[1]), *sys.argv[2:])
