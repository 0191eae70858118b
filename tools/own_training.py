"""What docs/in-training.md says in numbers: costs, remedies on CIFAR-10, statistics of BatchNorm.

    python tools/own_training.py {overhead,collapse,statistics,longtail} [--data FOLDER] [--seed 0] [--steps N]

One thread, minutes each. ``--data`` is what `Images` takes: a folder with CIFAR-10's parquet files, or "cifar10" of the
Hub.
"""

import argparse
from pathlib import Path
from time import process_time

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from featscope.data.images import Images, as_float
from featscope.data.long_tail import class_sizes
from featscope.integrations import Monitor
from featscope.losses import NonContrastive, NTXent
from featscope.models import IdentityInit
from featscope.streams import Streams
from featscope.training import MagnitudePruning
from featscope.training.batch_norm import batch_statistics, estimate_statistics

BATCH = 128


def images(data: str, seed: int, train: int = 5000, test: int = 2000) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, test images and labels; pixels from -2 to 2."""
    source = Images(data, train, test).build(Streams(seed, [0]).at("data"))
    (x, y, _), (x_test, y_test, _) = source.train_set, source.test_set
    return 4 * as_float(x) - 2, y, 4 * as_float(x_test) - 2, y_test


def encoder(width: int = 32, outputs: int = 64) -> nn.Sequential:
    """Three convolutions with BatchNorm, and a linear layer."""

    def block(inputs: int, channels: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, channels, 3, stride=2, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(channels), nn.ReLU()]

    layers = [*block(3, width), *block(width, 2 * width), *block(2 * width, 4 * width)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, outputs))


def view(x: Tensor) -> Tensor:
    """Moved by up to 4 pixels, mirrored, colours scaled and shifted."""
    down, right = torch.randint(9, (2,)).tolist()
    x = pad(x, (4, 4, 4, 4), mode="reflect")[:, :, down : down + 32, right : right + 32]
    x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x, x.flip(-1))
    return x * (0.6 + 0.8 * torch.rand(len(x), 3, 1, 1)) + 0.8 * torch.randn(len(x), 3, 1, 1)


def batches(x: Tensor, y: Tensor, steps: int):
    """Random batches."""
    for _ in range(steps):
        chosen = torch.randint(len(x), (BATCH,))
        yield x[chosen], y[chosen]


def held(x: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Batches of what is held out."""
    return list(zip(x.split(256), y.split(256), strict=True))


def overhead(data: str, seed: int, steps: int, out: Path) -> None:
    """Blocks of steps with and without a monitor in turn, in seconds of the processor: others use it, too."""
    x, y, x_test, y_test = images(data, seed)
    torch.manual_seed(seed)
    seconds = {"with": 0.0, "without": 0.0}
    net = encoder(64)
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    loss_of = NTXent(0.5)
    began = process_time()
    monitor = Monitor(net, held(x_test, y_test), at="10", out=out / "overhead", overwrite=True)
    seconds["with"] += process_time() - began
    block = 10
    for number in range(2 * steps // block):
        kind = ("with", "without")[number % 2]
        began = process_time()
        for batch, _ in batches(x, y, block):
            loss = loss_of(net(view(batch)), net(view(batch)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if kind == "with":
                monitor.step(loss)
        seconds[kind] += process_time() - began
    began = process_time()
    monitor.close()
    seconds["with"] += process_time() - began
    extra = seconds["with"] / seconds["without"] - 1
    print(
        f"overhead: {steps} steps each, {seconds['without']:.1f} s without, {100 * extra:+.1f} % with; "
        f"{len(monitor)} looks, {100 * monitor.overhead:.1f} % of the time by its own clock"
    )


def collapse(data: str, seed: int, steps: int, out: Path) -> None:
    """Two views without negatives, with a head that begins as the identity and without."""
    x, y, x_test, y_test = images(data, seed)
    for name in ("no head", "identity head"):
        torch.manual_seed(seed)
        net, loss_of = encoder(), NonContrastive("batch", eps=1e-5)
        head = IdentityInit().build(64) if name == "identity head" else nn.Identity()
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.05, momentum=0.9)
        folder = out / name.replace(" ", "-")
        watched = {"every": 20, "about": {"head": name}, "overwrite": True}
        with Monitor(net, held(x_test, y_test), out=folder, **watched) as monitor:
            for batch, _ in batches(x, y, steps):
                one, other = net(view(batch)), net(view(batch))
                loss = (loss_of(head(one), other) + loss_of(head(other), one)) / 64
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                monitor.step(loss)
        print(f"{name}, seed {seed}, {steps} steps: {told(monitor)}", flush=True)


def longtail(data: str, seed: int, steps: int, out: Path) -> None:
    """Contrastive learning of long-tailed CIFAR-10, ratio 100, with and without pruning."""
    x, y, x_test, y_test = images(data, seed, train=30000)
    sizes = class_sizes(10, 2000, 100.0)
    tail = torch.cat([torch.nonzero(y == label)[:size, 0] for label, size in enumerate(sizes)])
    for name, ratio in (("plain", 0.0), ("pruned", 0.5)):
        torch.manual_seed(seed)
        net, head, loss_of = encoder(outputs=128), nn.Sequential(nn.ReLU(), nn.Linear(128, 64)), NTXent(0.5)
        pruner = MagnitudePruning(ratio, "entry", "straight-through").on(net)
        optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.05, momentum=0.9)
        folder = out / f"longtail-{name}"
        with Monitor(
            net, held(x_test, y_test), out=folder, samples=2000, about={"pruned": ratio}, overwrite=True
        ) as monitor:
            for batch, _ in batches(x[tail], y[tail], steps):
                loss = loss_of(head(pruner(view(batch))), head(pruner(view(batch))))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                pruner.update()
                monitor.step(loss)
            pruner.refresh(view(batch) for batch, _ in batches(x[tail], y[tail], 32))
            monitor.close(anew=True)
        print(f"{name}, seed {seed}, {steps} steps: {told(monitor)}", flush=True)


def statistics(data: str, seed: int, steps: int, out: Path) -> None:
    """Which statistics of BatchNorm the whole network needs after training with hidden weights."""
    x, y, x_test, y_test = images(data, seed)

    def accuracy(net: nn.Module) -> float:
        net.eval()
        with torch.no_grad():
            right = float((net(x_test).argmax(1) == y_test).float().mean())
        net.train()
        return 100 * right

    def put(net: nn.Module, stored: dict[str, Tensor]) -> None:
        for name, buffer in batch_statistics(net):
            buffer.copy_(stored[name])

    def taken(net: nn.Module) -> dict[str, Tensor]:
        return {name: buffer.clone() for name, buffer in batch_statistics(net)}

    for ratio in (0.3, 0.5, 0.7, 0.9):
        torch.manual_seed(seed)
        net = encoder(outputs=10)
        pruner = MagnitudePruning(ratio, "entry", "straight-through").on(net)
        own = taken(net)
        optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
        for batch, labels in batches(x, y, steps):
            loss = cross_entropy(pruner(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pruner.update()
            put(net, own)  # statistics of the whole network, by a pass of its own at each step
            with torch.no_grad():
                net(batch)
            own = taken(net)
        found = {"separate": accuracy(net)}
        with pruner.hidden():
            theirs = taken(net)
        put(net, theirs)
        found["of the pruned network"] = accuracy(net)
        estimate_statistics(net, (batch for batch, _ in batches(x, y, 32)))
        found["re-estimated"] = accuracy(net)
        told = ", ".join(f"{name} {value:.1f} %" for name, value in found.items())
        print(f"ratio {ratio}, seed {seed}, {steps} steps: {told}", flush=True)


def told(monitor: Monitor) -> str:
    """What a monitor saw last."""
    return ", ".join(f"{name} {value:.3f}" for name, value in monitor.latest.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "collapse", "statistics", "longtail"))
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", type=Path, default=Path("runs/own-training"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    globals()[given.what](given.data, given.seed, given.steps, given.out)
