"""What rounding moves is let pass by the comparison of two devices; other draws and other data are not."""

from dataclasses import replace

import pytest
import torch
import two_devices
from two_devices import differing, measured

from featscope.registry import find
from featscope.runs.shard import Shard
from other_rounding import OtherRounding


def test_sums_are_rounded_otherwise_and_copies_are_not():
    values = torch.linspace(0, 1, 1000)
    with OtherRounding(0):
        moved, copied = values.exp(), values.clone()
    off = (moved / values.exp() - 1).abs().max()
    assert 0 < off <= 2 * torch.finfo(torch.float32).eps
    assert torch.equal(copied, values)


def test_other_rounding_passes(tmp_path):
    study = find("looped-transformer")[1]().smallest()  # much of it is rounding
    with OtherRounding(7):
        there = measured(study, study.arm("n=16"), "cpu", tmp_path / "there")
    assert two_devices.apart(measured(study, study.arm("n=16"), "cpu", tmp_path / "here"), there)
    assert not differing(study, study.arm("n=16"), there, tmp_path)


def test_other_draws_do_not(tmp_path, monkeypatch):
    study = find("looped-transformer")[1]().smallest()
    with monkeypatch.context() as patch:
        patch.setattr(two_devices, "Shard", lambda *given: replace(Shard(*given), seed=1))
        there = measured(study, study.arm("n=16"), "cpu", tmp_path / "there")
    assert differing(study, study.arm("n=16"), there, tmp_path)


@pytest.mark.long
def test_nor_do_images_of_another_size(tmp_path):
    pytest.importorskip("kornia", reason="extra 'images' is not installed")
    study = find("prediction-head-images")[1]().smallest()
    larger = replace(study, side=32)
    there = measured(larger, larger.arm("identity"), "cpu", tmp_path / "there")
    assert {"encoder_spread"} <= differing(study, study.arm("identity"), there, tmp_path).keys()
