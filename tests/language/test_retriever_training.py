"""How the retriever is trained, gone on with, and averaged."""

import json
import shutil
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from retriever_task import TEXTS, task
from safetensors.torch import load_file, save_file

from featscope.language.retriever import train as module
from featscope.language.retriever.average import Average, average
from featscope.language.retriever.makers import Makers
from featscope.language.retriever.texts import read_essays
from featscope.language.retriever.train import Plan, train
from featscope.options import ConfigError


def written(folder):
    """Seven essays, in a folder within ``folder``."""
    essays = folder / "essays"
    essays.mkdir()
    for i in range(7):
        (essays / f"{i}.txt").write_text(TEXTS[0])
    return essays


@pytest.fixture
def essays(tmp_path):
    return written(tmp_path)


def test_it_trains_and_goes_on_from_what_it_wrote(tmp_path, essays, monkeypatch):
    assert [len(texts) for texts in read_essays(essays)] == [5, 2]
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    small = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.002, tokens=1024)
    train(small)
    first = load_file(tmp_path / "out" / "model.safetensors")
    train(replace(small, out=tmp_path / "on", weights=tmp_path / "out", stage=1))
    about = json.loads((tmp_path / "on" / "training.json").read_text())
    assert about["recipe"]["weights"]["recipe"]["weights"] is None
    assert str(tmp_path) not in json.dumps(about)
    on = load_file(tmp_path / "on" / "model.safetensors")
    assert any(not torch.equal(first[name], on[name]) for name in first)
    near = [float((first[name] - on[name]).abs().max()) for name in first]
    assert max(near) < 0.5  # it began where the other ended


def trained(out, essays, seed, **other):
    """A small training."""
    train(Plan(essays, out, **{"vocabulary": 1024, "width": 32, "layers": 1, **other}, minutes=0.001, seed=seed))
    return out


def test_models_are_averaged_weight_by_weight(tmp_path, essays, monkeypatch):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    folders = tuple(trained(tmp_path / str(seed), essays, seed) for seed in (0, 1, 2))
    average(Average(folders, tmp_path / "mean"))
    states = [load_file(folder / "model.safetensors") for folder in folders]
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    assert mean.keys() == states[0].keys()
    for name in mean:
        torch.testing.assert_close(mean[name], sum(state[name] for state in states) / 3)
    about = json.loads((tmp_path / "mean" / "training.json").read_text())
    assert [made["recipe"]["seed"] for made in about["mean of"]] == [0, 1, 2]
    on = trained(tmp_path / "on", essays, 3, weights=tmp_path / "mean")
    assert json.loads((on / "training.json").read_text())["recipe"]["weights"] == about


@pytest.fixture(scope="module")
def models_of_kinds(tmp_path_factory):
    """Folders of models that cannot be averaged with the first."""
    folder = tmp_path_factory.mktemp("models")
    texts = written(folder)
    others = {"one": {}, "same": {}, "wide": {"width": 64}, "words": {"vocabulary": 512}, "deep": {"layers": 2}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "accuracy", lambda *given: 0.5)
        for name, other in others.items():
            trained(folder / name, texts, 0, **other)
    (folder / "empty").mkdir()
    (folder / "empty" / "training.json").write_text("{}")
    shutil.copytree(folder / "one", folder / "broken")
    weights = load_file(folder / "one" / "model.safetensors")
    weights["model.norm.weight"][0] = np.nan
    save_file(weights, folder / "broken" / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("models", "out", "message"),
    [
        (("one",), "mean", "two folders or more"),
        (("one", "none"), "mean", "as the training makes them"),
        (("one", "same"), "one", "none of the models"),
        (("one", "wide"), "mean", "models of one shape and tokenizer"),
        (("one", "words"), "mean", "models of one shape and tokenizer"),
        (("one", "deep"), "mean", "models of one shape and tokenizer"),
        (("deep", "one"), "mean", "models of one shape and tokenizer"),
        (("one", "same"), "nowhere/mean", "a folder, no file, within one that is there"),
        (("one", "same"), "essays/0.txt", "a folder, no file, within one that is there"),
        (("one", "empty"), "mean", "models that can be read"),
        (("one", "broken"), "mean", "models of finite weights"),
    ],
)
def test_what_cannot_be_averaged_is_not(tmp_path, essays, models_of_kinds, models, out, message):
    for name in models:
        if (models_of_kinds / name).exists():
            shutil.copytree(models_of_kinds / name, tmp_path / name)
    with pytest.raises(ConfigError, match=message):
        average(Average(tuple(tmp_path / name for name in models), tmp_path / out))
    assert not (tmp_path / "mean").exists()


def test_a_stage_takes_its_share_of_the_time_where_answers_stay_wrong(tmp_path, essays, monkeypatch, capsys):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    stages = tuple(replace(module.STAGES[0], length=length, until=until) for length, until in ((64, 0.5), (128, 1)))
    monkeypatch.setattr(module, "STAGES", stages)
    clock = SimpleNamespace(monotonic=count().__next__, process_time=lambda: 0)  # a second each time it is asked
    monkeypatch.setattr(module, "time", clock)
    train(Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=10 / 60, tokens=1024, gate=1))
    assert "128 tokens from step 5" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "training.json").read_text())["history"][-1]["step"] == 10


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"vocabulary": 512}, "whose tokenizer is that of these essays"),
        ({"width": 64}, "a model of this width"),
        ({"layers": 2}, "with as many heads, and no more layers"),
        ({"heads": 2}, "with as many heads, and no more layers"),
    ],
)
def test_a_model_that_does_not_fit_is_not_gone_on_with(tmp_path, essays, monkeypatch, other, message):
    monkeypatch.setattr(module, "accuracy", lambda *given: 0.5)
    small = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.001, tokens=1024)
    train(replace(small, **other))
    with pytest.raises(ConfigError, match=message):
        train(replace(small, out=tmp_path / "on", weights=tmp_path / "out"))
    assert not (tmp_path / "on").exists()


def test_nothing_is_written_over_what_is_gone_on_from(tmp_path, essays):
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"another folder than weights\. Nothing is written over what is read"):
        Plan(essays, tmp_path / "essays" / "..", weights=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 10}, ">= 1024"),
        ({"out": Path("nowhere/out")}, "a folder, no file, within one that is there"),
        ({"out": Path(__file__)}, "a folder, no file, within one that is there"),
        ({"weights": Path("nowhere")}, "a folder with a model that this script made, or none"),
        ({"stage": 9}, "0 to 6"),
        ({"context": 10}, ">= 1024"),
        ({"heads": 5}, "a divisor of width = 192"),
        ({"heads": 0}, ">= 1"),
        ({"muon": float("inf")}, "> 0, and finite"),
        ({"makers": -1}, ">= 0"),
        ({"device": "cuda"}, "cpu, or a GPU that torch sees"),
    ],
)
def test_wrong_plans_say_what_is_allowed(options, message, essays, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=message):
        replace(Plan(essays, Path("out")), **options)


def test_processes_read_batches_of_their_own_that_are_as_long(tokenizer, essays):
    plan = Plan(essays, Path("out"), tokens=1024)
    for step in range(4):
        one, other = (module._batch(task(tokenizer), plan, module.STAGES[4], step, rank).tokens for rank in (0, 1))
        assert one.shape == other.shape
        assert not torch.equal(one, other)


def test_batches_made_ahead_come_in_order_and_follow_the_stage(tokenizer, essays):
    plan = Plan(essays, Path("out"), tokens=1024)

    def make(stage, step):
        return module._batch(task(tokenizer), plan, module.STAGES[stage], step, 0)

    here, others = Makers(make, 0, 3), Makers(make, 2, 3)
    for one, other in zip(islice(here.batches(), 8), islice(others.batches(), 8), strict=True):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.sought, other.sought)
    batches = others.batches()
    next(batches)
    others.stage = 4
    assert [batch.tokens.shape[1] for batch in islice(batches, 40, 60)] == [
        make(4, step).tokens.shape[1] for step in range(41, 61)
    ]


def test_a_team_averages_every_gradient_before_each_step(tmp_path, essays, monkeypatch):
    told = []
    monkeypatch.setattr(module.Team, "average", lambda _, parameters: told.append({id(p) for p in parameters}))
    learn = []
    made = module._optimizers
    monkeypatch.setattr(module, "_optimizers", lambda *of: learn.extend(made(*of)) or learn)
    train(Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=0.001, tokens=1024))
    steps = json.loads((tmp_path / "out" / "training.json").read_text())["history"][-1]["step"]
    assert told == [{id(p) for one in learn for group in one.param_groups for p in group["params"]}] * steps


def test_a_training_that_diverges_keeps_what_was_written(tmp_path, essays):
    wild = Plan(essays, tmp_path / "out", vocabulary=1024, width=32, layers=1, minutes=1, tokens=1024, lr=1e30)
    with pytest.raises(ConfigError, match=r"lr = 1e\+30 .* the loss stays finite; step \d+ is"):
        train(wild)
    assert not (tmp_path / "out" / "model.safetensors").exists()
