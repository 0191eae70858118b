"""A training of one's own, watched in a plain loop."""

import json
import math
import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from featscope.evaluation import leave_one_out_labels
from featscope.integrations import Monitor
from featscope.integrations.mean_loss import MeanLoss
from featscope.integrations.monitor import _is_whole
from featscope.integrations.pace import Pace, round_up
from featscope.integrations.undisturbed import undisturbed
from featscope.modules import unwrapped
from featscope.options import ConfigError
from featscope.probes import collapse, effective_rank
from featscope.runs.stored import read_trajectory
from featscope.studies.own_training import OwnTraining


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


def batches(count: int = 4, size: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    labels = [torch.randint(3, (size,), generator=generator) for _ in range(count)]
    return [(torch.randn(size, 6, generator=generator) + 2 * nn.functional.one_hot(y, 6), y) for y in labels]


def train(net: nn.Module, steps: int = 6, **options) -> Monitor | None:
    """A plain loop; without options nobody watches."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    monitor = Monitor(net, batches(), **options) if options else None
    for step in range(steps):
        x, y = batches()[step % 4]
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if monitor is not None:
            monitor.step(loss)
    if monitor is not None:
        monitor.close()
    return monitor


def test_what_is_trained_is_the_same_with_and_without_a_monitor(tmp_path):
    alone, watched = model(), model()
    np.random.seed(5)  # noqa: NPY002
    train(alone)
    drawn = torch.rand(3), np.random.rand()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    train(watched, out=tmp_path / "run", every=2)
    assert all(
        torch.equal(a, b) for a, b in zip(alone.state_dict().values(), watched.state_dict().values(), strict=True)
    )
    assert torch.equal(torch.rand(3), drawn[0])
    assert np.random.rand() == drawn[1]  # noqa: NPY002
    assert all(part.training for part in watched.modules())


def test_a_look_begins_when_the_gpus_of_the_model_are_done(monkeypatch):
    net, waited = model(), []
    monitor = Monitor(net, batches(), every=1)
    found = monitor._measured()
    places = [SimpleNamespace(device=torch.device(name), is_cuda=name != "cpu") for name in ("cuda:1", "cpu", "cuda:1")]
    monkeypatch.setattr(net, "parameters", lambda: places)
    monkeypatch.setattr(monitor, "_measured", lambda: found)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda place=None: waited.append(place))
    monitor.step()
    assert waited == [torch.device("cuda:1")]
    assert len(monitor) == 2


def test_apples_gpu_is_waited_for_as_well(monkeypatch):
    net, waited = model(), []
    monitor = Monitor(net, batches(), every=1)
    found = monitor._measured()
    monkeypatch.setattr(net, "parameters", lambda: [SimpleNamespace(device=torch.device("mps"), is_cuda=False)])
    monkeypatch.setattr(monitor, "_measured", lambda: found)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    monitor.step()
    assert waited == ["mps"]


def test_a_submodule_is_watched_before_what_comes_next_works_in_place():
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3))
    x = torch.cat([x for x, _ in batches()])
    found = Monitor(net, batches(), at="0").latest["effective_rank"]
    assert found == pytest.approx(float(effective_rank(net[0](x).detach())), rel=1e-4)


def test_of_a_model_in_parallel_the_model_itself_is_watched(tmp_path):
    """Whose forward, with BatchNorm, would wait for processes that do not look."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    try:
        net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        whole = nn.parallel.DistributedDataParallel(net)
        monitor = Monitor(whole, batches(), at="module.0", layer="module.0")
        assert monitor._model is net
        assert (monitor._at, monitor._layer) == ("0", "0")
    finally:
        distributed.destroy_process_group()


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def compiled(net: nn.Module) -> nn.Module:
    """By Dynamo alone: it is what passes hooks over."""
    return torch.compile(net, backend="eager")


@pytest.mark.parametrize("name", ["0", "_orig_mod.0"])
def test_of_a_compiled_model_the_model_itself_is_watched_at_every_look(tmp_path, name):
    net, x = layers(), batches()[0][0]
    whole = compiled(net)
    whole.eval()(x)
    monitor = Monitor(whole, batches(), at=name, layer=name, every=1, out=tmp_path / "run")
    first = monitor.latest
    monitor.step()
    assert monitor.latest == pytest.approx(first, nan_ok=True)
    assert np.isfinite(first["gradient_agreement"])
    monitor.close()
    said = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (said["model"], said["at"]) == ("Sequential", "0")
    with torch.no_grad():
        net[0].weight[1:] = net[0].weight[:1]
    assert Monitor(whole, batches(), at=name).latest["effective_rank"] == pytest.approx(
        Monitor(net, batches(), at="0").latest["effective_rank"]
    )


@pytest.mark.parametrize("name", ["0.0", "0._orig_mod.0"])
def test_a_compiled_part_is_watched_at_every_look(name):
    net = nn.Sequential(compiled(layers()), nn.Linear(3, 2))
    net.eval()(batches()[0][0])
    monitor = Monitor(net, batches(), at=name, layer=name, every=1)
    first = monitor.latest
    monitor.step()
    assert monitor.latest == pytest.approx(first, nan_ok=True)
    assert np.isfinite(first["gradient_agreement"])
    assert monitor._at == "0.0"


def test_of_a_model_compiled_and_in_parallel_the_model_itself_is_watched(tmp_path):
    distributed, parallel = torch.distributed, nn.parallel.DistributedDataParallel
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    try:
        for whole, prefix in (
            (parallel(compiled(net := layers())), "module._orig_mod."),
            (compiled(parallel(net)), "_orig_mod.module."),
        ):
            for name in (f"{prefix}0", "0"):
                assert unwrapped(whole, name, prefix.removesuffix("."), "") == (net, ["0", "", ""])
            assert Monitor(whole, batches())._model is net
    finally:
        distributed.destroy_process_group()


def test_python_s_random_numbers_are_left_alone_too():
    """By itself: where types are checked at run time, the checks draw from them."""
    random.seed(5)
    wanted = random.random()
    random.seed(5)
    with undisturbed():
        random.random()
    assert random.random() == wanted


def test_a_shuffled_loader_moves_no_random_number():
    data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.zeros(64, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    net = model()
    torch.manual_seed(0)
    wanted = torch.rand(4)
    torch.manual_seed(0)
    Monitor(net, loader, samples=32)
    assert torch.equal(torch.rand(4), wanted)


def test_numbers_are_those_of_the_probes_at_the_steps_asked_for(tmp_path):
    net, seen = model(), []
    train(net, 5, at="3", every=2, out=tmp_path / "run", log=lambda found, step: seen.append((step, dict(found))))
    assert [step for step, _ in seen] == [0, 2, 4, 5]
    net.eval()
    with torch.no_grad():
        features = torch.cat([net[:4](x) for x, _ in batches()])
    labels = torch.cat([y for _, y in batches()])
    right = leave_one_out_labels(features, labels) == labels
    _, last = seen[-1]
    assert last["featscope/effective_rank"] == pytest.approx(float(effective_rank(features)))
    assert last["featscope/accuracy"] == pytest.approx(float(right.double().mean()))
    assert last["featscope/worst_class_accuracy"] == pytest.approx(
        min(float(right[labels == one].double().mean()) for one in range(3))
    )
    run = read_trajectory(tmp_path / "run")["training"]
    assert run["step"].values.tolist() == [0, 2, 4, 5]
    assert run["accuracy_by_class"].shape == (1, 4, 3)
    assert "featscope/loss" not in seen[0][1]
    assert np.isfinite(run["loss"].values[0, 1:]).all()


def test_each_number_is_that_of_its_probe():
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 9, 1, 1, 1]) + 2
    x[:, 2:4] = 1
    found = Monitor(nn.Identity(), [x]).latest
    for name in ("effective_rank", "mean_correlation", "spread"):
        assert found[name] == pytest.approx(float(getattr(collapse, name)(x)))
    assert found["constant_dimensions"] == 2


def test_classes_keep_their_numbers_where_some_are_not_held_out():
    labels, seen = torch.tensor([1, 3]).repeat(20), []
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)) + nn.functional.one_hot(labels, 4)
    Monitor(nn.Identity(), [(x, labels)], log=lambda found, step: seen.append(found))
    right = leave_one_out_labels(x, labels) == labels
    found = {name: value for name, value in seen[0].items() if "class/" in name}
    wanted = {f"featscope/accuracy_of_class/{one}": float(right[labels == one].double().mean()) for one in (1, 3)}
    assert found == pytest.approx(wanted)


def test_a_training_that_is_resumed_goes_on_from_its_steps():
    seen = []
    train(model(), 3, every=2, done=7, log=lambda found, step: seen.append(step))
    assert seen == [7, 9, 10]


def test_held_out_samples_that_come_class_by_class_are_told():
    x, y = torch.randn(60, 6), torch.tensor([2, 0, 1]).repeat_interleave(20)
    data = torch.utils.data.TensorDataset(x, y)
    in_order = torch.utils.data.DataLoader(data, batch_size=10)
    with pytest.warns(UserWarning, match="class by class, .* first 40 samples are of 2 classes, .* Give a shuffled"):
        Monitor(model(), in_order, samples=40)
    with pytest.warns(UserWarning, match="its first 20 samples are of 1 class, and"):
        Monitor(model(), in_order, samples=20)
    chance = torch.Generator().manual_seed(0)
    shuffled = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True, generator=chance)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="held_out comes class by class")
        Monitor(model(), in_order, samples=60)  # nothing is left
        Monitor(model(), shuffled, samples=40)
        Monitor(model(), [(x[:20], y[:20])], samples=20)  # it has one class, and all of it was read
        Monitor(model(), [(x[15:19], torch.tensor([0, 0, 1, 1])), (x, y)], samples=4)  # so are a third of all orders
        Monitor(model(), [(x[:9], torch.arange(3).repeat_interleave(3)), (x, y)], samples=9)  # and one of 280


def test_a_class_of_one_sample_has_no_accuracy():
    """Leave it out, and nobody is there to name it."""
    noise = 0.1 * torch.randn(31, 4, generator=torch.Generator().manual_seed(2))
    labels = torch.cat([torch.arange(3).repeat(10), torch.tensor([3])])
    seen = []
    held_out = [(10 * nn.functional.one_hot(labels, 4) + noise, labels)]
    monitor = Monitor(nn.Identity(), held_out, neighbours=5, log=lambda found, step: seen.append(dict(found)))
    assert monitor.latest["worst_class_accuracy"] == 1
    assert monitor.latest["accuracy"] == pytest.approx(30 / 31)
    assert {name for name in seen[0] if "class/" in name} == {f"featscope/accuracy_of_class/{k}" for k in range(3)}


def test_labels_may_be_large_whole_numbers():
    """As hashes are, which number no classes: accuracies are those of the same classes by small numbers."""
    far = torch.tensor([7, 2**40, 2**62])
    small, large, logged = *(Monitor(model(), [(x, n[y]) for x, y in batches()]) for n in (torch.arange(3), far)), []
    for name in ("accuracy", "worst_class_accuracy"):
        assert large.latest[name] == small.latest[name]
    Monitor(model(), [(x, far[y]) for x, y in batches()], log=lambda found, step: logged.extend(found))
    assert not [name for name in logged if "class/" in name]


def test_a_model_that_changed_after_its_last_step_is_looked_at_anew(tmp_path):
    net = model()
    monitor = Monitor(net, batches(), out=tmp_path, every=1)
    monitor.part(1.0)
    monitor.step(2.0)
    with torch.no_grad():
        net[0].weight.mul_(torch.linspace(0.1, 3, 8)[:, None])
    monitor.close(anew=True)
    run = read_trajectory(tmp_path)["training"]
    assert run["step"].values.tolist() == [0, 1]
    assert float(run["loss"][0, 1]) == 1.5
    assert float(run["effective_rank"][0, 1]) == pytest.approx(Monitor(net, batches()).latest["effective_rank"])


def test_a_training_without_steps_may_be_looked_at_anew(tmp_path):
    """As one that is resumed after its last step, and whose statistics of BatchNorm are taken anew."""
    net = model()
    Monitor(net, batches(), out=tmp_path).close(anew=True)
    assert read_trajectory(tmp_path)["training"]["step"].values.tolist() == [0]


def test_neighbours_are_all_others_but_never_the_sample_itself():
    features = torch.randn(30, 4, generator=torch.Generator().manual_seed(2))
    labels = torch.randint(3, (30,), generator=torch.Generator().manual_seed(3))
    x = features.double().numpy()
    x = (x - x.mean(0)) / x.std(0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for sample, named in enumerate(leave_one_out_labels(features, labels, 5).tolist()):
        others = sorted((n for n in range(30) if n != sample), key=lambda n: -float(x[sample] @ x[n]))[:5]
        votes = np.bincount(labels[others].numpy(), minlength=3)
        assert named == next(int(labels[n]) for n in others if votes[labels[n]] == votes.max())


def test_a_training_that_diverged_is_not_ended_by_its_watch():
    net = model()
    monitor = Monitor(net, batches(), every=1)
    with torch.no_grad():
        net[0].weight.fill_(float("nan"))
    monitor.step(float("nan"))
    assert np.isnan(monitor.latest["effective_rank"])
    assert np.isnan(monitor.latest["accuracy"])


def test_that_memory_does_not_suffice_is_told(monkeypatch):
    def full(*_args, **_options):
        raise torch.OutOfMemoryError

    monkeypatch.setattr("featscope.integrations.monitor.layer_agreement", full)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        monitor = Monitor(model(), batches(), every=1, neighbours=5)
        monitor.step()
    assert [str(one.message)[:44] for one in told] == ["layer = '0': memory does not suffice for its"]
    assert np.isnan(monitor.latest["gradient_agreement"])


def test_that_no_gradient_reaches_a_layer_is_told_once():
    net = model()
    net[0].requires_grad_(False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        monitor = Monitor(net, batches(), every=1, neighbours=5)
        monitor.step()
    (one,) = told
    assert "layer = '0': gradient_agreement is NaN, as it cannot be had there (at = '0'" in str(one.message)
    assert "this layer is frozen, and no gradient reaches it" in str(one.message)
    assert np.isnan(monitor.latest["gradient_agreement"])
    net[0].requires_grad_(True)
    monitor.step()
    assert np.isfinite(monitor.latest["gradient_agreement"])


@pytest.mark.parametrize(
    ("option", "value"), [("samples", 1), ("neighbours", 0), ("share", 0.0), ("every", 0), ("done", -1)]
)
def test_wrong_options_are_named(option, value):
    with pytest.raises(ConfigError, match=rf"Monitor\.{option} = {value!r} is out of range"):
        Monitor(model(), batches(), **{option: value})


def test_numbers_that_are_not_whole_are_told():
    """Types are checked in these tests alone."""
    assert all(_is_whole(value, 1) for value in (1, np.int64(3)))
    assert not any(_is_whole(value, 1) for value in (0, 2.5, 2.0, "3", None, True))


def test_what_cannot_be_measured_is_said():
    with pytest.raises(AttributeError):
        Monitor(model(), batches(), at="backbone")
    with pytest.raises(ValueError, match=r"loss has shape \[4\]: allowed is one number"):
        Monitor(model(), batches(), every=9).step(torch.ones(4))  # and not at the next look
    for few in ([], [torch.randn(1, 6)]):
        with pytest.raises(ValueError, match=f"held_out has {len(few)} samples: allowed are two or more"):
            Monitor(model(), few)
    with pytest.raises(ValueError, match="`reduce`"):
        Monitor(nn.Identity(), [torch.randn(4, 5, 2, 3, 3)])
    with pytest.raises(ConfigError, match="cannot be run"):
        OwnTraining().smallest()


def test_the_interval_keeps_to_the_share_of_the_time(monkeypatch):
    """Steps of 10 ms and looks of 0.3 s at 2 % make an interval of 2000 steps: 1500, rounded up."""
    now = 0.0
    monkeypatch.setattr("featscope.integrations.pace.perf_counter", lambda: now)
    pace, looks = Pace(0.02, None), []

    def look() -> None:
        nonlocal now
        now += 0.3
        pace.looked(0.3)

    look()
    for step in range(1, 10001):
        now += 0.01
        if pace.due(step):
            looks.append(step)
            look()
            assert pace.spent <= 0.02 * now + 1e-9
    assert looks == [4000, 6000, 8000, 10000]  # by 2000 the first look would not have been paid for


@pytest.mark.parametrize(
    ("share", "looks", "wanted"), [(0.45, [0.1], 50), (1.0, [0.4, 0.1], 50)], ids=["of steps alone", "the slower"]
)
def test_the_interval_is_by_the_time_of_steps_and_the_slower_look(share, looks, wanted, monkeypatch):
    """Steps of 10 ms: 0.1 s at 45 % are 22 of them, and 0.4 s at 100 % are 40."""
    now = 0.0
    monkeypatch.setattr("featscope.integrations.pace.perf_counter", lambda: now)
    pace = Pace(share, None)
    for seconds in looks:
        now += seconds
        pace.looked(seconds)
    for step in range(1, wanted + 1):
        now += 0.01
        assert pace.due(step) == (step == wanted)


def test_overhead_is_the_share_of_the_time_that_looks_took():
    monitor = Monitor(model(), batches())
    monitor._pace = SimpleNamespace(spent=1.0, elapsed=4.0)
    assert monitor.overhead == 0.25


@pytest.mark.parametrize(("number", "wanted"), [(0.0, 1), (1.0, 1), (1.1, 2), (3, 5), (5.1, 10), (1500, 2000)])
def test_intervals_are_round(number, wanted):
    assert round_up(number) == wanted


def test_a_loader_whose_workers_persist_is_as_if_it_had_not_been_read():
    """Its first own pass draws a seed from torch's generator: all later shuffles and masks follow."""

    def draws(watched: bool) -> torch.Tensor:
        model = nn.Linear(1, 2)
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.arange(32.0)[:, None])
        loader = torch.utils.data.DataLoader(data, 8, shuffle=True, num_workers=1, persistent_workers=True)
        if watched:
            Monitor(model, loader, samples=16)
        return torch.cat([batch for (batch,) in loader] + [torch.rand(4, 1)])

    assert draws(True).equal(draws(False))


def test_a_last_batch_of_one_that_a_model_squeezes_is_refused_by_name():
    class Squeezing(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).squeeze()

    with pytest.raises(ValueError, match=r"features have shape \[3\] for 65 samples, allowed is \[sample, dimension\]"):
        Monitor(Squeezing(4, 3), list(torch.randn(65, 4).split(64)), samples=65, reduce=lambda output: output)


def test_the_mean_loss_of_many_steps_is_the_mean():
    mean = MeanLoss()
    for _ in range(200_000):
        mean.add(torch.tensor(0.1))
    assert mean.take() == pytest.approx(0.1, rel=1e-6)
    assert math.isnan(mean.take())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_default_precision_of_half_is_none_of_the_records(dtype):
    net, x = nn.Linear(4, 3), torch.randn(8, 4)
    torch.set_default_dtype(dtype)
    try:
        found = Monitor(net, [(x, torch.arange(8) % 2)]).latest
    finally:
        torch.set_default_dtype(torch.float32)
    assert 1 <= found["effective_rank"] <= 3
