"""The callbacks: the moments at which weights are hidden, and what reaches the user's logger."""

import sys
from collections import OrderedDict
from contextlib import nullcontext
from copy import deepcopy
from importlib.util import find_spec, module_from_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from featscope.commands.compare import compare
from featscope.integrations import Monitor
from featscope.integrations.watch import Watch
from featscope.options import ConfigError
from featscope.runs.folder import RunFolder
from featscope.runs.plain import from_plain
from featscope.runs.stored import read_plan, read_trajectory
from featscope.training import MagnitudePruning, Pruner
from featscope.training.batch_norm import estimate_statistics

PRUNING = MagnitudePruning(0.5, "entry", "straight-through")
STEPS = sys.modules["torch.optim.optimizer"]


def lightnings(**about) -> SimpleNamespace:
    """A trainer of Lightning's, as far as the callback asks it, that computes in float32 on the processor."""
    about = {"callbacks": [], "state": SimpleNamespace(stage="train"), "training": True} | about
    return SimpleNamespace(
        precision_plugin=SimpleNamespace(forward_context=nullcontext, convert_input=lambda batch: batch),
        strategy=SimpleNamespace(batch_to_device=lambda batch, dataloader_idx: batch),
        **about,
    )


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 16, 4, generator=generator)
    return [(one, (one[:, 0] > 0).long()) for one in x]


def by_hand() -> nn.Sequential:
    """What a loop with a `Pruner` trains."""
    net = network()
    pruner = PRUNING.on(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        loss = nn.functional.cross_entropy(pruner(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pruner.update()
    pruner.refresh(batches())
    return net


def same(one: nn.Module, other: nn.Module) -> None:
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name])


def test_hiding_at_the_moments_of_a_callback_trains_what_the_pruner_trains():
    net, seen = network(), []
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    watch = Watch(net, batches(), lambda found, step: seen.append(step), PRUNING, every=2)
    for x, y in batches():
        watch.before_loss()
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        watch.before_update()
        optimizer.step()
        watch.after_step(loss)
    watch.finish(batches())
    same(net, by_hand())
    assert seen == [0, 2, 4, 4], "the last step is looked at again with the statistics taken anew"
    alone = Monitor(net, batches()).latest
    assert len(watch.monitor) == 3
    assert np.isfinite(watch.monitor.latest["loss"])
    for name in alone.keys() - {"loss"}:
        assert watch.monitor.latest[name] == pytest.approx(alone[name], nan_ok=True), name


def the_whole_network_s(net: nn.Module, given: list[tuple[torch.Tensor, torch.Tensor]]) -> nn.Module:
    """A copy of it whose statistics of BatchNorm are taken of these batches."""
    other = deepcopy(net)
    with torch.random.fork_rng([]):
        estimate_statistics(other, given)
    return other


class Drawing(nn.Module):
    """Draws in every pass, and counts them in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        return x + 0 * torch.randn(())


def test_statistics_are_of_the_whole_network_whenever_it_is_looked_at_and_training_goes_on_as_without():
    def trained(refreshed: bool) -> tuple[nn.Sequential, list[torch.Tensor]]:
        net, drawn = nn.Sequential(Drawing(), network()), []
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        watch = Watch(net, batches(), lambda found, step: None, PRUNING, every=1 if refreshed else 100)
        for place, (x, y) in enumerate(batches() * 3):
            watch.before_loss((x, y))
            watch.refresh()  # of a loss that is not yet differentiated: nothing
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            watch.before_update()
            optimizer.step()
            drawn.append(torch.rand(()))
            watch.after_step(None)
            if refreshed:
                same(net[1], the_whole_network_s(net, (batches() * 3)[max(0, place - 7) : place + 1])[1])
            else:
                assert float(net[1][1].running_mean.norm()) == 0  # of the start
        watch.finish(batches())
        watch.refresh()  # nothing, once it is over
        same(net[1], the_whole_network_s(net, batches())[1])
        return net, drawn

    torch.manual_seed(5)
    net, drawn = trained(True)
    torch.manual_seed(5)
    other, drawn_without = trained(False)
    same(net, other)
    assert drawn == drawn_without


def test_a_norm_in_evaluation_mode_keeps_its_statistics_also_before_the_first_step_ends():
    """As where the network is validated while the gradient is not yet whole."""
    net = network()
    net[1].running_mean.fill_(7.0)
    net[1].eval()
    watch = Watch(net, batches(), lambda found, step: None, PRUNING, every=100)
    watch.before_loss(batches()[0])
    net(batches()[0][0])
    watch.after_part(None)
    watch.refresh()
    assert (net[1].running_mean == 7).all()


def test_a_last_batch_that_is_small_does_not_count_as_a_whole_one():
    net = network()
    watch = Watch(net, batches(), lambda found, step: None, PRUNING, every=100)
    for x, y in [*batches()[:2], (batches()[2][0][:2], batches()[2][1][:2])]:
        watch.before_loss([x, y])
        net(x)
        watch.after_part(None)
    watch.refresh()
    same(net, the_whole_network_s(net, batches()[:2]))


def test_what_a_step_takes_out_of_its_batch_is_there_when_statistics_are_taken():
    """As a Trainer of one's own may do by ``inputs.pop``."""
    net, held_out = network(), [{"x": x} for x, _ in batches()]
    options = {"run": lambda net, batch: net(batch["x"]), "every": 100}
    watch = Watch(net, held_out, lambda found, step: None, PRUNING, **options)
    for batch in ({"x": x} for x, _ in batches()[:2]):
        watch.before_loss(batch)
        net(batch.pop("x"))
        watch.after_part(None)
    watch.refresh()
    same(net, the_whole_network_s(net, batches()[:2]))


def test_before_pruning_begins_statistics_are_those_of_the_training():
    net, alone, late = network(), network(), MagnitudePruning(0.5, "entry", "straight-through", start=9)
    watch = Watch(net, batches(), lambda found, step: None, late, every=1)
    for batch in batches():
        watch.before_loss(batch)
        net(batch[0]), alone(batch[0])
        watch.after_step(None)
    same(net, alone)


def test_where_the_model_cannot_be_run_on_what_training_gives_it_training_goes_on_with_a_warning():
    net, looks = network(), []
    options = {"every": 1, "prepare": lambda: looks.append(len(looks))}
    watch = Watch(net, batches(), lambda found, step: None, PRUNING, **options)
    for place in range(2):
        watch.before_loss({"text": ["a", "b"], "x": batches()[0][0]})
        net(batches()[0][0])
        if place:
            watch.after_step(None)
        else:
            with pytest.warns(UserWarning, match=r"cannot be run on batches of training.*say by run= how \(TypeError"):
                watch.after_step(None)
    assert looks == [0, 1, 2]


def test_in_lightning_statistics_are_of_what_the_first_of_several_loaders_gives(lightning_callback):
    training = Manual(lightning_callback, lambda net: torch.optim.SGD(net.parameters(), 0.1))
    first, second = batches()[:2]
    for loaders, batch in (({"a": [], "b": []}, {"a": first, "b": second}), ([[], []], [first, second])):
        training.trainer.train_dataloader = loaders
        for index in range(8):
            training.begin(index, batch)
            training.differentiate(*first)
            training.step()
            training.end(index)
        training.watch.on_validation_epoch_start(training.trainer, training.net)
        same(training.net, the_whole_network_s(training.net, [first] * 8))


def test_statistics_of_several_processes_together_stay_until_training_ends(monkeypatch):
    net = nn.SyncBatchNorm.convert_sync_batchnorm(network())
    several = {"is_initialized": lambda: True, "get_world_size": lambda: 2, "get_rank": lambda: 0}
    for name, said in several.items():
        monkeypatch.setattr(torch.distributed, name, said)
    with pytest.warns(UserWarning, match="SyncBatchNorm takes statistics of all processes together"):
        watch = Watch(net, batches(), lambda found, step: None, PRUNING)
    watch.before_loss(batches()[0])
    watch.before_update()
    watch.refresh()
    assert float(net[1].running_mean.norm()) == 0


def test_the_run_folder_tells_how_it_was_pruned(tmp_path, capsys):
    for name, pruning in (("pruned", PRUNING), ("whole", None), ("again", None)):
        watch = Watch(network().eval(), batches(), print, pruning, out=tmp_path / name, about={"lr": 0.1})
        watch.finish(batches())
    capsys.readouterr()
    folders = {name: str(tmp_path / name) for name in ("pruned", "whole", "again", "page", "pages")}
    assert compare([folders["pruned"], folders["whole"], "--out", folders["page"]]) == 0
    told = capsys.readouterr().out
    assert "options that are known that differ" in told
    assert "pruning=MagnitudePruning" in told
    assert from_plain(read_plan(tmp_path / "pruned")["config"]).about == ("lr=0.1", f"pruning={PRUNING}")
    assert compare([folders["again"], folders["whole"], "--out", folders["pages"]]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "All options that are known are the same." in told
    assert "what `about=` told is all that is known" in told


LATE = MagnitudePruning(0.5, "entry", "straight-through", every=3, start=2)


def train(pruner: Pruner, given: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    optimizer = torch.optim.SGD(pruner.module.parameters(), 0.1)
    for x, y in given:
        optimizer.zero_grad()
        nn.functional.cross_entropy(pruner(x), y).backward()
        optimizer.step()
        pruner.update()


def test_start_and_every_of_a_training_that_is_resumed_count_from_its_first_step():
    whole, first, second = (LATE.on(network()) for _ in range(3))
    train(whole, batches())
    train(first, batches()[:2])
    second.module.load_state_dict(first.module.state_dict())
    second.resume(2)  # where the first one chose, too
    train(second, batches()[2:])
    for one, other in zip(whole.module.parameters(), second.module.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    kept = second.mask.kept.clone()
    nn.init.normal_(second.module[0].weight, generator=torch.Generator().manual_seed(3))
    second.update()
    assert (second.step, torch.equal(kept, second.mask.kept)) == (5, False)  # start + every
    early = LATE.on(network())
    early.resume(1)
    assert not early.began
    early.update()
    assert early.began


def test_before_a_resumed_training_steps_nothing_is_known_of_its_statistics():
    pruner = PRUNING.on(network())
    pruner.resume(9)
    assert pruner.refresh(batches())


RESUMED = pytest.mark.parametrize(("done", "began"), [(0, False), (1, False), (2, True), (7, True)])


@RESUMED
def test_lightning_s_callback_tells_the_pruner_of_the_steps_before(lightning_callback, done, began):
    watch = lightning_callback(batches(), pruning=LATE)
    watch.on_train_start(lightnings(loggers=[], callback_metrics={}, global_step=done), network())
    assert (watch.watch.pruner.step, watch.watch.pruner.began) == (done, began)
    assert (watch.watch.monitor.steps, watch.watch.monitor._record.steps) == (done, [done])


@RESUMED
def test_the_trainer_s_callback_tells_the_pruner_of_the_steps_before(done, began):
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    held_out = [{"x": x, "labels": y} for x, y in batches()]
    trainer = SimpleNamespace(log=lambda found: None, training_step=lambda: None)
    watch = FeatScopeCallback(trainer, held_out, pruning=LATE)
    watch.on_train_begin(None, SimpleNamespace(global_step=done), None, model=Held())
    assert (watch.watch.pruner.step, watch.watch.pruner.began) == (done, began)
    assert (watch.watch.monitor.steps, watch.watch.monitor._record.steps) == (done, [done])


def test_pruning_that_a_callback_cannot_do_is_refused_before_training():
    with pytest.raises(ValueError, match="'straight-through'"):
        Watch(network(), batches(), lambda *_: None, MagnitudePruning(0.5))


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")
    from featscope.integrations.lightning import FeatScopeCallback

    class Tuned(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, index):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    from lightning.pytorch.loggers import CSVLogger

    watch = FeatScopeCallback(batches(), of="net", at="2", pruning=PRUNING, every=3, out=tmp_path / "run")
    quiet = {"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    logger = CSVLogger(tmp_path)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=logger, callbacks=[watch], **quiet)
    tuned = Tuned()
    trainer.fit(tuned, torch.utils.data.DataLoader(batches(), batch_size=None))
    same(tuned.net, by_hand())
    run = read_trajectory(tmp_path / "run")["training"]
    assert run["step"].values.tolist() == [0, 3, 4]
    assert float(trainer.callback_metrics["featscope/accuracy"]) == pytest.approx(float(run["accuracy"][0, -1]))
    logged = (tmp_path / "lightning_logs" / "version_0" / "metrics.csv").read_text().splitlines()
    assert "featscope/effective_rank" in logged[0]
    assert len(logged) == 4


@pytest.fixture
def lightning_callback(monkeypatch):
    """The callback for Lightning, on what stands in for it where it is not installed."""
    monkeypatch.setattr(STEPS, "_global_optimizer_pre_hooks", OrderedDict())  # of trainings that do not end
    stand_in = ModuleType("lightning.pytorch")
    stand_in.Callback = object
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", stand_in)
    spec = find_spec("featscope.integrations.lightning")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.FeatScopeCallback


def steps_of(callback, automatic: bool, batches_a_step: int, told: bool) -> tuple[list[bool], list[float]]:
    """Whether pruning has begun after each batch, and the losses that were logged.

    ``told``: whether Lightning knows of the optimizer.
    """
    net, began, losses = network(), [], []
    logger = SimpleNamespace(log_metrics=lambda found, step: losses.append(found.get("featscope/loss")))
    trainer = lightnings(loggers=[logger], callback_metrics={}, global_step=0, accumulate_grad_batches=batches_a_step)
    net.automatic_optimization = automatic
    watch = callback(batches(), pruning=MagnitudePruning(0.5, "entry", "straight-through", start=2), every=1)
    watch.on_train_start(trainer, net)
    for index, batch in enumerate(batches()):
        watch.on_train_batch_start(trainer, net, batch, index)
        if told and (index + 1) % batches_a_step == 0:
            watch.on_before_optimizer_step(trainer, net, None)
        loss = torch.tensor(float(index)) / (batches_a_step if automatic else 1)
        watch.on_train_batch_end(trainer, net, {"loss": loss}, batch, index)
        began.append(watch.watch.pruner.began)
    return began, losses[1:]


def test_in_lightning_batches_whose_gradients_are_summed_are_one_step(lightning_callback):
    assert steps_of(lightning_callback, True, 2, True) == ([False, False, False, True], [0.5, 2.5])
    assert steps_of(lightning_callback, True, 1, True) == ([False, True, True, True], [0.0, 1.0, 2.0, 3.0])


def test_in_lightning_s_manual_optimization_each_batch_is_a_step_until_an_optimizer_tells(lightning_callback):
    assert steps_of(lightning_callback, False, 1, True)[1] == [0.0, 1.0, 2.0, 3.0]
    assert steps_of(lightning_callback, False, 1, False)[1] == [0.0, 1.0, 2.0, 3.0], "an optimizer of another's"
    assert steps_of(lightning_callback, False, 2, True)[1] == [0.0, 1.0, 2.5]


@pytest.mark.parametrize(("optimizers", "counted"), [(2, 2), (0, 0)], ids=["two", "another's"])
def test_in_lightning_a_resumed_pruning_goes_on_from_its_own_count(lightning_callback, optimizers, counted):
    """Lightning counts what each of its optimizers does in a batch, and nothing of another's."""

    def trainer(steps: int) -> SimpleNamespace:
        return lightnings(loggers=[], callback_metrics={}, global_step=steps, accumulate_grad_batches=1)

    def resumed(checkpoint: dict) -> Pruner:
        second = lightning_callback(batches(), pruning=LATE)
        second.setup(trainer(0), net, "fit")
        second.on_load_checkpoint(trainer(0), net, checkpoint)
        second.on_train_start(trainer(counted), network())
        return second.watch.pruner

    first, net, checkpoint = lightning_callback(batches(), pruning=LATE), network(), {}
    net.automatic_optimization = False
    first.on_save_checkpoint(trainer(0), net, checkpoint)  # nothing is trained yet
    assert resumed(checkpoint).step == counted
    first.on_train_start(trainer(0), net)
    first.on_train_batch_start(trainer(0), net, None, 0)
    for _ in range(optimizers):
        first.on_before_optimizer_step(trainer(0), net, None)
    first.on_train_batch_end(trainer(0), net, None, None, 0)
    first.on_save_checkpoint(trainer(counted), net, checkpoint)
    assert (resumed(checkpoint).step, resumed(checkpoint).began) == (1, False)


class Manual:
    """Manual optimization of a network whose weights are hidden, as Lightning goes through it."""

    def __init__(self, callback, *optimizers) -> None:
        self.net = network()
        self.net.automatic_optimization = False
        self.optimizers = [make(self.net) for make in optimizers]
        self.trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, train_dataloader=[batches()])
        self.trainer.optimizers = self.optimizers
        self.watch = callback(batches(), pruning=PRUNING, every=100)
        self.watch.on_train_start(self.trainer, self.net)

    def differentiate(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.net.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        return loss

    def told(self, optimizer: torch.optim.Optimizer) -> None:
        self.watch.on_before_optimizer_step(self.trainer, self.net, optimizer)

    def step(self) -> None:
        for optimizer in self.optimizers:
            self.told(optimizer)
            optimizer.step()

    def begin(self, index: int, batch: object = None) -> None:
        self.watch.on_train_batch_start(self.trainer, self.net, batch, index)

    def end(self, index: int) -> None:
        self.watch.on_train_batch_end(self.trainer, self.net, None, None, index)


def of_layer(place: int):
    return lambda net: torch.optim.SGD(net[place].parameters(), 0.1)


def test_in_lightning_several_optimizers_may_step_after_the_losses_of_a_batch(lightning_callback):
    training = Manual(lightning_callback, of_layer(0), of_layer(1), of_layer(3))
    for index, batch in enumerate(batches()):
        training.begin(index)
        training.differentiate(*batch)
        training.step()
        training.end(index)
    training.watch.on_train_end(training.trainer, training.net)
    same(training.net, by_hand())
    assert not STEPS._global_optimizer_pre_hooks, "weights may be trained on without it"


@pytest.mark.parametrize("moment", ["validation", "checkpoint"])
def test_in_lightning_what_is_validated_or_saved_has_statistics_of_the_whole_network(lightning_callback, moment):
    training = Manual(lightning_callback, lambda net: torch.optim.SGD(net.parameters(), 0.1))
    for index, batch in enumerate(batches()[:3]):
        training.begin(index, batch)
        training.differentiate(*batch)
        training.step()
        training.end(index)
    checkpoint = {"state_dict": training.net.state_dict()}  # which Lightning takes before it asks
    right = the_whole_network_s(training.net, batches()[:3]).state_dict()
    assert not torch.allclose(checkpoint["state_dict"]["1.running_mean"], right["1.running_mean"])
    if moment == "validation":
        training.watch.on_validation_epoch_start(training.trainer, training.net)
    else:
        training.watch.on_save_checkpoint(training.trainer, training.net, checkpoint)
    for name, value in checkpoint["state_dict"].items():
        torch.testing.assert_close(value, right[name])


def test_in_lightning_an_epoch_whose_rest_is_left_out_leaves_no_weight_hidden(lightning_callback):
    training = Manual(lightning_callback, lambda net: torch.optim.SGD(net.parameters(), 0.1))
    whole = training.net[0].weight.detach().clone()
    training.begin(0, batches()[0])
    assert (training.net[0].weight == 0).any()
    training.watch.on_train_epoch_end(training.trainer, training.net)  # before what saves the model
    assert torch.equal(training.net[0].weight, whole)


def test_in_lightning_it_comes_after_what_changes_the_model_at_the_end_and_before_what_saves_it(lightning_callback):
    one, other, average, saving = lightning_callback(), lightning_callback(), object(), object()
    trainer = SimpleNamespace(callbacks=[one, average, other, saving], checkpoint_callbacks=[saving])
    for callback in (one, other):
        callback.on_fit_start(trainer, network())
    assert trainer.callbacks == [average, one, other, saving]


def test_in_lightning_a_training_without_pruning_that_is_resumed_goes_on_from_its_own_count(lightning_callback):
    first, second, checkpoint, net = lightning_callback(batches()), lightning_callback(batches()), {}, network()
    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, accumulate_grad_batches=1)
    net.automatic_optimization = False
    first.on_train_start(trainer, net)
    first.on_train_batch_start(trainer, net, None, 0)
    first.on_train_batch_end(trainer, net, None, None, 0)
    first.on_save_checkpoint(trainer, net, checkpoint)
    second.on_load_checkpoint(trainer, net, checkpoint)
    second.on_train_start(trainer, net)
    assert second.watch.monitor.steps == 1


def test_in_lightning_a_checkpoint_has_the_steps_of_every_part_and_is_forgotten_by_the_next_training(
    lightning_callback,
):
    net, checkpoint, done = network(), {}, {"": 3, "0": 5}
    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0)
    for of in done:
        watch, trainer.global_step = lightning_callback(batches(), of=of), done[of]
        watch.on_train_start(trainer, net)
        watch.on_save_checkpoint(trainer, net, checkpoint)
    trainer.global_step = 0
    for of in done:
        watch = lightning_callback(batches(), of=of)
        for resumed in (True, False):
            watch.setup(trainer, net, "fit")
            if resumed:
                watch.on_load_checkpoint(trainer, net, checkpoint)
            watch.on_train_start(trainer, net)
            assert watch.watch.monitor.steps == resumed * done[of]


def test_in_lightning_a_step_of_a_training_that_broke_off_is_none_of_the_next(lightning_callback):
    net, watch = network(), lightning_callback(batches())
    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, accumulate_grad_batches=2)
    net.automatic_optimization = True
    for breaks in (True, False):
        watch.on_train_start(trainer, net)
        watch.on_train_batch_start(trainer, net, batches()[0], 0)
        if breaks:
            watch.on_before_optimizer_step(trainer, net, None)
            watch.on_exception(trainer, net, KeyboardInterrupt())
        else:
            watch.on_train_batch_end(trainer, net, torch.tensor(0.5), batches()[0], 0)
    assert watch.watch.monitor.steps == 0


def test_in_lightning_a_loss_after_the_first_step_of_a_batch_is_refused(lightning_callback):
    batch, training = batches()[0], Manual(lightning_callback, of_layer(0))
    training.begin(0)
    training.differentiate(*batch)
    training.differentiate(*batch)  # before the step there may be several
    training.step()
    with pytest.raises(ConfigError, match=r"hides weights until the first step of a batch.*`with pruner\.hidden\(\):`"):
        training.differentiate(*batch)
    training.end(0)
    training.begin(1)
    training.differentiate(*batch)
    training.step()
    training.watch.on_exception(training.trainer, training.net, KeyboardInterrupt())
    training.differentiate(*batch)
    assert not STEPS._global_optimizer_pre_hooks


def test_in_lightning_an_optimizer_that_asks_for_its_loss_again_is_refused(lightning_callback):
    training = Manual(lightning_callback, lambda net: torch.optim.LBFGS(net.parameters(), max_iter=3))
    (optimizer,) = training.optimizers

    def closure():
        loss = training.differentiate(*batches()[0])
        training.told(optimizer)
        return loss

    training.begin(0)
    with pytest.raises(ConfigError, match="LBFGS"):
        optimizer.step(closure)


def test_in_lightning_all_weights_are_shown_to_an_optimizer_of_another_s_and_a_probe_steps_when_it_likes(
    lightning_callback,
):
    training = Manual(lightning_callback)
    probe = torch.nn.Linear(2, 2)
    beside, optimizer = torch.optim.SGD(probe.parameters(), 0.1), torch.optim.SGD(training.net.parameters(), 0.1)
    for index, batch in enumerate(batches()):
        training.begin(index)
        beside.step()  # in the middle of the loss
        training.differentiate(*batch)
        optimizer.step()
        training.end(index)
        beside.step()  # in another callback
    training.watch.on_train_end(training.trainer, training.net)
    same(training.net, by_hand())


def test_in_lightning_another_s_optimizer_of_pruned_parameters_uncovers_them_for_its_batch_alone(lightning_callback):
    batch, training = batches()[0], Manual(lightning_callback, lambda net: torch.optim.SGD(net.parameters(), 0.1))
    another = torch.optim.SGD([{"params": [nn.Parameter(torch.ones(2))]}, {"params": [training.net[0].weight]}], 0.1)
    for index in (0, 1):
        training.begin(index)
        training.differentiate(*batch)
        training.step()
        training.end(index)
        another.step()  # between batches
    training.begin(2)
    another.step()
    assert not (training.net[0].weight == 0).any()
    with pytest.raises(ConfigError, match="hides weights until the first step of a batch"):
        training.differentiate(*batch)


def test_a_training_of_lightning_s_that_breaks_off_keeps_its_weights_and_what_was_seen(lightning_callback, tmp_path):
    net = network()
    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, accumulate_grad_batches=1)
    watch = lightning_callback(batches(), at="2", pruning=PRUNING, every=100, out=tmp_path / "run")
    watch.on_exception(trainer, net, KeyboardInterrupt())  # before anything was watched
    watch.on_train_start(trainer, net)
    net.automatic_optimization = True
    for index in (0, 1):
        watch.on_train_batch_start(trainer, net, None, index)
        watch.on_before_optimizer_step(trainer, net, None)
        watch.on_train_batch_end(trainer, net, {"loss": torch.tensor(0.5)}, None, index)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    watch.on_train_batch_start(trainer, net, None, 2)
    assert (net[0].weight == 0).any()
    with pytest.raises(ConfigError, match="is held by"), RunFolder.held(tmp_path / "run", resume=True):
        pass
    watch.on_exception(trainer, net, KeyboardInterrupt())
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    assert read_trajectory(tmp_path / "run")["training"]["step"].values.tolist() == [0, 2]
    with RunFolder.held(tmp_path / "run", resume=True):  # the monitor is closed
        pass


def test_lightning_without_anything_held_out_says_so():
    pytest.importorskip("lightning")
    from featscope.integrations.lightning import FeatScopeCallback

    with pytest.raises(ConfigError, match="held_out = None needs a validation loader"):
        FeatScopeCallback().on_train_start(SimpleNamespace(val_dataloaders=None), network())


class Held(nn.Module):
    """A model that is called as the Trainer's are."""

    base_model_prefix = "body"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return SimpleNamespace(logits=self.head(self.body(x)))


def test_the_trainer_s_callback_logs_through_the_trainer_and_measures_below_the_head(tmp_path):
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    logged, model = [], Held()
    held_out = [{"x": x, "labels": y} for x, y in batches()]
    trainer = SimpleNamespace(log=logged.append, eval_dataset=held_out, get_eval_dataloader=lambda: held_out)
    trainer.training_step = lambda model, inputs: bool((model.head.weight == 0).any())
    watch = FeatScopeCallback(trainer, every=1, out=tmp_path / "run", pruning=PRUNING)
    trainer.callback_handler = SimpleNamespace(callbacks=[watch])
    watch.on_train_begin(None, SimpleNamespace(global_step=0), None, model=model)
    watch.on_step_begin(None, None, None)
    assert trainer.training_step(model, held_out[0])
    assert not (model.head.weight == 0).any()
    watch.on_step_end(None, None, SimpleNamespace(should_evaluate=False, should_save=False))
    watch.on_log(None, None, None, logs={"loss": 0.25})
    watch.on_train_end(None, None, None, train_dataloader=held_out)
    assert [one.get("featscope/loss") for one in logged] == [None, 0.25]
    run = read_trajectory(tmp_path / "run")["training"]
    assert run["dimensions"].values.tolist() == [5]
    assert bool(run["gradient_agreement"].notnull().all())


def test_the_trainer_logs_its_loss_at_steps_with_a_look_which_has_that_loss():
    pytest.importorskip("transformers")
    from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback, TrainerControl, TrainerState

    from featscope.integrations.trainer import FeatScopeCallback

    logged, model = [], Held()
    args = SimpleNamespace(logging_first_step=False, logging_strategy="steps", eval_strategy="no", save_strategy="no")
    state, control = TrainerState(logging_steps=2, max_steps=4), TrainerControl()

    def log(logs):
        logged.append((state.global_step, logs))
        moments.on_log(args, state, control, logs)

    watch = FeatScopeCallback(SimpleNamespace(log=log), [{"x": x, "labels": y} for x, y in batches()], every=1)
    moments = CallbackHandler([DefaultFlowCallback, watch], model, None, None, None)
    moments.on_train_begin(args, state, control)
    for step in (1, 2, 3, 4):  # the order of the Trainer
        moments.on_step_begin(args, state, control)
        moments.on_pre_optimizer_step(args, state, control)
        state.global_step = step
        moments.on_step_end(args, state, control)
        if control.should_log:
            log({"loss": step / 8})
    moments.on_train_end(args, state, control)
    assert [(step, logs["loss"]) for step, logs in logged if "loss" in logs] == [(2, 0.25), (4, 0.5)]
    looks = [(step, logs.get("featscope/loss")) for step, logs in logged if "featscope/effective_rank" in logs]
    assert looks == [(0, None), (1, None), (2, 0.25), (3, None), (4, 0.5)]


@pytest.mark.parametrize("asked", ["should_evaluate", "should_save"])
@pytest.mark.parametrize("moment", ["on_step_end", "on_epoch_end"])
def test_what_the_trainer_evaluates_or_saves_has_statistics_of_the_whole_network(moment, asked):
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: torch.Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.net(x))

    model, given = Wrapped(), [{"x": x, "labels": y} for x, y in batches()]

    def step(model: nn.Module, inputs: dict[str, torch.Tensor]) -> None:
        nn.functional.cross_entropy(model(inputs["x"]).logits, inputs["labels"]).backward()

    trainer = SimpleNamespace(log=lambda found: None, training_step=step)
    watch = FeatScopeCallback(trainer, given, pruning=PRUNING, every=100)
    trainer.callback_handler = SimpleNamespace(callbacks=[watch])
    watch.on_train_begin(None, SimpleNamespace(global_step=0), None, model=model)
    nothing = {"should_evaluate": False, "should_save": False}
    for place, inputs in enumerate(given):
        watch.on_step_begin(None, None, None)
        trainer.training_step(model, **{"inputs": inputs}) if place % 2 else trainer.training_step(model, inputs)
        getattr(watch, moment)(None, None, SimpleNamespace(**nothing))
    assert float(model.net[1].running_mean.norm()) == 0
    getattr(watch, moment)(None, None, SimpleNamespace(**nothing | {asked: True}))
    same(model.net, the_whole_network_s(model.net, batches()))


def test_a_step_of_the_trainer_that_breaks_off_leaves_no_weight_hidden():
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    class Steps:
        """What a callback sees of a Trainer; its steps are a class's own, as there."""

        def __init__(self, model: nn.Module) -> None:
            self.model, self.callback_handler = model, SimpleNamespace(callbacks=[])

        def log(self, found: dict[str, float]) -> None:
            pass

        def training_step(self, model: nn.Module, inputs: dict[str, torch.Tensor], items: int | None = None):
            assert bool((model.head.weight == 0).any()) == hidden
            if "x" not in inputs:
                raise KeyboardInterrupt
            loss = model(inputs["x"]).logits.square().mean()
            loss.backward()
            return loss.detach()

    model, held_out, hidden = Held(), [{"x": x, "labels": y} for x, y in batches()], True
    trainer = Steps(model)
    watch = FeatScopeCallback(trainer, held_out, pruning=PRUNING)
    trainer.callback_handler.callbacks.append(watch)
    whole = {name: value.clone() for name, value in model.state_dict().items()}
    for inputs in (held_out[0], {}):
        watch.on_train_begin(None, SimpleNamespace(global_step=0), None, model=model)
        watch.on_step_begin(None, None, None)
        if inputs:
            assert torch.isfinite(trainer.training_step(model, inputs, items=16))
            pruned = PRUNING.on(Held())
            pruned(held_out[0]["x"]).logits.square().mean().backward()
            for one, other in zip(model.parameters(), pruned.module.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad)
        else:
            with pytest.raises(KeyboardInterrupt):
                trainer.training_step(model, inputs)
        assert all(torch.equal(value, whole[name]) for name, value in model.state_dict().items())
    trainer.callback_handler.callbacks.remove(watch)
    hidden = False
    trainer.training_step(model, held_out[0])


def test_of_several_evaluation_sets_of_the_trainer_the_first_is_held_out():
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    sets = {"one": [{"x": x, "labels": y} for x, y in batches()], "other": []}
    trainer = SimpleNamespace(log=lambda found: None, eval_dataset=sets, get_eval_dataloader=lambda name: sets[name])
    watch = FeatScopeCallback(trainer)
    watch.on_train_begin(None, SimpleNamespace(global_step=0), None, model=Held())
    assert watch.watch.monitor._held.samples == 64


def test_a_step_of_a_trainer_s_training_that_broke_off_is_none_of_the_next():
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import FeatScopeCallback

    held_out, state = [{"x": x, "labels": y} for x, y in batches()], SimpleNamespace(global_step=0)
    watch = FeatScopeCallback(SimpleNamespace(log=lambda found: None), held_out, every=1)
    for breaks in (True, False):
        watch.on_train_begin(None, state, None, model=Held())
        if breaks:
            watch.on_log(None, None, None, logs={"loss": 0.25})
            watch.on_step_end(None, None, None)
        else:
            watch.on_step_begin(None, None, None)
    assert watch.watch.monitor.steps == 0


def test_in_lightning_the_trainer_s_batches_come_as_its_steps_have_them(lightning_callback):
    """Modules may scale them in a hook, and looks and statistics would be of what the network never sees."""
    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, val_dataloaders=[batches()])
    net, stages = network(), []

    def handed(batch, dataloader_idx):
        stages.append((getattr(trainer, "validating", False), net.training))
        return batch[0] / 10 - 1, batch[1]

    trainer.strategy.batch_to_device = handed
    watch = lightning_callback(every=1)
    watch.on_train_start(trainer, net)
    assert set(stages) == {(True, False)}  # or hooks would augment them
    assert (trainer.state.stage, net.training) == ("train", True)
    for (seen, _), (raw, _) in zip(watch.watch.monitor._held.batches, batches(), strict=False):
        assert torch.equal(seen, raw / 10 - 1)
    own = lightning_callback(batches(), every=1)
    own.on_train_start(trainer, network())
    assert torch.equal(own.watch.monitor._held.batches[0][0], batches()[0][0])


def test_in_lightning_the_last_look_is_of_averaged_weights(lightning_callback):
    class EMAWeightAveraging:
        """What comes last in Lightning, and changes the weights."""

    trainer = lightnings(loggers=[], callback_metrics={}, global_step=0, val_dataloaders=[batches()])
    trainer.callbacks, trainer.train_dataloader = [EMAWeightAveraging()], [batches()]
    watch, net = lightning_callback(every=1), network()
    watch.on_train_start(trainer, net)
    net.automatic_optimization, trainer.accumulate_grad_batches = True, 1
    watch.on_before_optimizer_step(trainer, net, None)
    watch.on_train_batch_end(trainer, net, {"loss": torch.tensor(1.0)}, batches()[0], 0)
    before = dict(watch.watch.monitor.latest)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    watch.on_train_end(trainer, net)
    fresh = Monitor(net, batches()).latest
    assert watch.watch.monitor.latest["effective_rank"] == pytest.approx(fresh["effective_rank"])
    assert before["effective_rank"] != pytest.approx(fresh["effective_rank"])
    assert watch.watch.monitor._record.steps == [0, 1]


def test_below_the_head_is_found_within_an_adapter():
    pytest.importorskip("transformers")
    from featscope.integrations.trainer import _below_the_head

    class Llama(nn.Module):
        base_model_prefix = "model"

        def __init__(self):
            super().__init__()
            self.model, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    class Adapter(nn.Module):
        """Passes attributes on, as PEFT's do."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.model, name)

        def get_base_model(self):
            return self.model

    assert _below_the_head(Llama()) == "model"
    assert _below_the_head(Adapter(Llama())) == "model.model"
    assert Adapter(Llama()).base_model_prefix == "model"
    assert _below_the_head(nn.Linear(2, 2)) == ""
    assert _below_the_head(nn.ModuleDict({"teacher": Llama(), "student": nn.Linear(2, 2)})) == ""


def test_what_ends_a_pruned_training_changes_statistics_alone():
    class Counting(nn.Module):
        """Counts samples, as a memory bank or a queue moves."""

        def __init__(self):
            super().__init__()
            self.norm, self.layer = nn.BatchNorm1d(6), nn.Linear(6, 3)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += len(x)
            return self.layer(self.norm(x))

    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(0)) + 3
    net, held_out = Counting(), [(x, torch.arange(12) % 3)]
    draws = torch.Generator().manual_seed(0)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*held_out[0]), 4, True, generator=draws)
    watch = Watch(net, held_out, lambda *_: None, PRUNING)
    for batch in held_out * 3:
        watch.before_loss(batch)
        net(batch[0]).sum().backward()
        watch.after_step(None)
    seen, state = net.seen.clone(), draws.get_state()
    watch.finish(loader)
    assert torch.equal(net.seen, seen)
    assert torch.equal(draws.get_state(), state)
    assert net.norm.running_mean.mean() == pytest.approx(3, abs=0.5)
