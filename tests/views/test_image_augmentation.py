"""Crops and colour distortion."""

import pytest
import torch

from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.views import Crop, CropColor

kornia = pytest.importorskip("kornia", reason="extra 'images' is not installed")


def draws(step: int = 0):
    return Streams(0, [0]).at("view", step)


@pytest.fixture
def images():
    return torch.rand(1, 16, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("view", [Crop(), CropColor()])
def test_views_are_a_function_of_the_address_and_differ(view, images):
    state = torch.get_rng_state()
    anchor, positive = view(images, draws())
    again = view(images, draws())
    assert torch.equal(anchor, again[0])
    assert torch.equal(positive, again[1])
    assert anchor.shape == images.shape
    assert not torch.equal(anchor, positive)
    assert not torch.equal(anchor, view(images, draws(1))[0])
    assert torch.equal(torch.get_rng_state(), state)  # workers share torch's global generator
    assert anchor.min() >= 0
    assert anchor.max() <= 1


def test_the_whole_image_is_the_image_or_its_mirror(images):
    anchor, _ = Crop(smallest=1.0, stretch=1.0)(images, draws())
    same = (anchor - images).abs().amax((-3, -2, -1)) < 1e-5
    mirrored = (anchor - images.flip(-1)).abs().amax((-3, -2, -1)) < 1e-5
    assert torch.logical_xor(same, mirrored).all()
    assert same.any()
    assert mirrored.any()


def test_a_crop_is_a_window_of_the_allowed_area():
    # The first channel holds the column, the second the row: a view tells which window it shows.
    axis = (torch.arange(32) + 0.5) / 32
    ramp = torch.stack([axis.expand(32, 32), axis[:, None].expand(32, 32), torch.zeros(32, 32)])
    views, _ = Crop(smallest=0.2)(ramp.expand(1, 400, 3, 32, 32), draws())
    columns, rows = views[0, :, 0, 16], views[0, :, 1, :, 16]
    width, height = ((c[:, 20] - c[:, 11]).abs() * 32 / 9 for c in (columns, rows))
    area = width * height
    assert area.min() > 0.2 - 0.01
    assert area.max() <= 1 + 0.01
    assert 0.5 < area.mean() < 0.65  # uniform between 0.2 and 1, less what does not fit
    assert (width / height).max() <= 4 / 3 + 0.02
    assert (rows[:, -1] > rows[:, 0]).all()  # never upside down
    assert 0.35 < (columns[:, -1] > columns[:, 0]).float().mean() < 0.65


def test_without_colour_distortion_the_crop_is_left(images):
    crop = Crop()
    view = CropColor(crop=crop, jitter=0.0, grayscale=0.0)
    assert torch.equal(view.augment(images, draws()), crop.augment(images, draws()))


def test_grayscale_leaves_no_colour(images):
    view = CropColor(grayscale=1.0).augment(images, draws())
    assert torch.equal(view[:, :, 0], view[:, :, 1])
    assert torch.equal(view[:, :, 0], view[:, :, 2])


def test_jitter_of_strength_zero_changes_nothing(images):
    view = CropColor(strength=0.0, jitter=1.0, grayscale=0.0)
    torch.testing.assert_close(view.augment(images, draws()), Crop().augment(images, draws()), atol=1e-4, rtol=0)


@pytest.mark.parametrize("scaled", [lambda x: 255 * x, lambda x: (x - 0.5) * 4], ids=["bytes", "normalised"])
def test_pixels_of_another_scale_are_refused(images, scaled):
    with pytest.raises(ValueError, match="allowed is from 0 to 1"):
        CropColor()(scaled(images), draws())
    CropColor()(images * 1.05, draws())  # as resizing overshoots


def test_what_bicubic_resizing_makes_of_pixels_is_taken():
    edge, point = torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
    edge[..., 4:] = 1
    point[..., 3:5, 3:5] = 1  # the most that it overshoots is in the midst of these four
    for image in (edge, point):
        resized = torch.nn.functional.interpolate(image, size=(17, 17), mode="bicubic")
        assert resized.max() > 1.1
        CropColor()(resized[None], draws())


def test_pixels_of_another_scale_are_taken_where_no_colours_are_cut_off(images):
    normalised = (images - 0.5) * 4
    crop = Crop()
    view = CropColor(crop=crop, jitter=0.0, grayscale=0.0)
    assert torch.equal(view.augment(normalised, draws()), crop.augment(normalised, draws()))
    gray, _ = CropColor(crop=crop, jitter=0.0, grayscale=1.0)(normalised, draws())
    assert gray.min() < -1


def test_colours_change_by_image(images):
    whole = Crop(smallest=1.0, stretch=1.0)
    view = CropColor(crop=whole, jitter=1.0, grayscale=0.0).augment(images, draws())
    change = (view.mean((-2, -1)) - images.mean((-2, -1)))[0]
    assert (change.abs().sum(-1) > 0.01).all()
    assert change.std(0).min() > 0.01


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (Crop, "smallest", 0.0),
        (Crop, "smallest", 1.5),
        (Crop, "stretch", 0.5),
        (CropColor, "strength", 2.0),
        (CropColor, "jitter", -1.0),
        (CropColor, "grayscale", 1.5),
    ],
)
def test_wrong_options_are_named(kind, option, value):
    with pytest.raises(ConfigError, match=rf"^{kind.__name__}\.{option} = {value} is out of range: allowed is "):
        kind(**{option: value})


@pytest.mark.parametrize("view", [Crop(), CropColor()])
def test_replicas_do_not_share_the_crops_of_one(view, images):
    with pytest.raises(ValueError, match=r"expected the draws' replica axis in front, \[1, "):
        view(images.expand(2, *images.shape[1:]), draws())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_places_are_not_rounded_in_half_precision(dtype, images):
    own = Crop().augment(images, draws())
    with torch.autocast("cpu", dtype):
        assert torch.equal(Crop().augment(images, draws()), own)
    narrow = Crop().augment(images.to(dtype), draws())
    assert narrow.dtype == dtype
    torch.testing.assert_close(narrow.float(), own, atol=0.01, rtol=0)
