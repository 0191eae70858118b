"""The study `decoupling-images` at a tiny size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.figures import Bars, Curves, Heatmaps, ImageGrids, Scatters
from featscope.models import AlexNet, WideResNet
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.decoupling_images import DecouplingImages
from featscope.training import Record, probe_steps, train

pytest.importorskip("kornia", reason="extra 'images' is not installed")

TINY = DecouplingImages(data="shapes", train=48, test=32, alexnet=AlexNet(width=4), batch=8, steps=3, probe_every=2)
REPLICAS = 3


def run_arm(arm, replica: int) -> xr.Dataset:
    experiment, record = arm.config.build(Streams(0, [replica])), Record()
    train(
        experiment,
        arm.config.steps,
        arm.config.watch,
        probe_steps(arm.config.steps, arm.config.probe_every),
        record,
    )
    with torch.no_grad():
        for assay in arm.at_end:
            record.put(assay(experiment))
    return record.to_dataset([replica])


@pytest.fixture(scope="module")
def runs():
    return {
        arm.name: xr.concat([run_arm(arm, replica) for replica in range(REPLICAS)], dim="replica", join="outer")
        for arm in TINY.arms()
    }


def test_arms_begin_with_the_same_network_and_images():
    experiments = [arm.config.build(Streams(0, [1])) for arm in TINY.arms()]
    first = experiments[0]
    for other in experiments[1:]:
        assert torch.equal(first.learner.filters, other.learner.filters)
        assert torch.equal(first.source.train_set.pixels, other.source.train_set.pixels)


def test_every_statement_is_put_to_the_test_and_controls_are_not_expected(runs):
    claims = list(TINY.claims(runs))
    assert {claim.id for claim in claims} == {statement.id for statement in TINY.statements}
    assert len({(claim.id, claim.arm) for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.n == REPLICAS
        assert np.isfinite(claim.measured)
        assert not (claim.arm == "untrained" and claim.expected)


def test_the_untrained_network_has_not_moved(runs):
    assert not runs["untrained"]["distance"].any()
    moved = [claim for claim in TINY.claims(runs) if claim.id == "filters-move-without-augmentation"]
    assert {claim.arm: claim.verdict for claim in moved}["untrained"] == "fails"
    assert (runs["crop"]["distance"] > 0).all()


def test_a_claim_is_arithmetic_on_what_was_measured(runs):
    claim = next(c for c in TINY.claims(runs) if c.id == "colour-makes-contrastive-sparser" and c.arm == "crop-colour")
    crop, colour = (runs[arm]["density"].values[:, 1:].mean(1) for arm in ("crop", "crop-colour"))
    assert claim.measured == pytest.approx((crop - colour).mean())
    assert claim.relation == ">="


def test_figures_show_all_arms(runs):
    figures = list(TINY.figures(runs, list(TINY.claims(runs))))
    assert len({figure.id for figure in figures}) == len(figures)
    assert {type(figure) for figure in figures} == {Bars, Curves, Heatmaps, ImageGrids, Scatters}
    for figure in figures:
        if isinstance(figure, ImageGrids):
            assert len(figure.panels) == (5 if figure.id == "filters-learned" else 6)
            for images in figure.panels.values():
                assert images.shape == (4, 5, 5, 3)
                assert images.min() >= 0
                assert images.max() <= 1
        if isinstance(figure, Scatters):
            assert len(figure.class_names) == 8
    assert "before training" in TINY.headline(runs, list(TINY.claims(runs)))


def test_one_replica_still_makes_a_report(runs):
    single = {arm: run.isel(replica=[0]) for arm, run in runs.items()}
    claims = list(TINY.claims(single))
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert list(TINY.figures(single, claims))


def test_the_wide_resnet_runs():
    study = replace(TINY, network="wide-resnet", wide_resnet=WideResNet(depth=10, widen=1), batch=4, steps=1)
    arm = next(a for a in study.arms() if a.name == "crop-colour")
    run = run_arm(arm, 0)
    assert run.sizes["layer"] == 4
    assert np.isfinite(run["density"]).all()


@pytest.mark.parametrize("wrong", [{"data": ""}, {"batch": 1}, {"steps": -1}, {"probe_every": 0}, {"train": -1}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ConfigError, match=r"DecouplingImages\."):
        DecouplingImages(**wrong)
