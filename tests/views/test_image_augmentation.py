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
    for seen in (anchor, positive):
        assert ((seen - images).abs().amax((-3, -2, -1)) > 0.1).all()
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


def windows(view: Crop, count: int = 2000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Width, height and centre of ``count`` windows in shares of the image, read off channels that hold places."""
    axis = (torch.arange(16) + 0.5) / 16
    ramp = torch.stack([axis.expand(16, 16), axis[:, None].expand(16, 16)])
    seen = view.augment(ramp.expand(1, count, 2, 16, 16), draws())[0].double()
    columns, rows = seen[:, 0, 8], seen[:, 1, :, 8]
    sizes = ((c[:, 10] - c[:, 5]).abs() * 16 / 5 for c in (columns, rows))
    return *sizes, (columns[:, 7] + columns[:, 8]) / 2, (rows[:, 7] + rows[:, 8]) / 2


def test_windows_reach_every_edge_and_no_further_and_places_are_independent():
    """Of wide and of high windows; the logarithm of their aspect ratio is uniform: no share of it is left out."""
    width, height, across, down = windows(Crop(smallest=0.1, stretch=2.0))
    free = (width < 0.95) & (height < 0.95)
    at = [((centre - size / 2) / (1 - size))[free] for centre, size in ((across, width), (down, height))]
    for place in at:
        assert -0.01 < place.min() < 0.02
        assert 0.98 < place.max() < 1.01
        assert float(place.mean()) == pytest.approx(0.5, abs=0.03)
        assert float(place.var()) == pytest.approx(1 / 12, rel=0.1)
    assert abs(float(torch.corrcoef(torch.stack(at))[0, 1])) < 0.1
    stretch = (width / height).log2()[width * height < 0.4]  # which would fit at any aspect ratio
    assert -1.02 < stretch.min() < -0.95
    assert 0.95 < stretch.max() < 1.02
    assert float(stretch.var()) == pytest.approx(1 / 3, rel=0.15)


def test_outside_the_image_its_edge_goes_on():
    view = Crop(smallest=0.3).augment(torch.full((1, 64, 1, 8, 8), 0.7), draws())
    torch.testing.assert_close(view, torch.full_like(view, 0.7))


def coloured(view: CropColor, colours: torch.Tensor, step: int = 0) -> torch.Tensor:
    """What becomes of flat images ``[image, channel]``, whose crop they are; ``[image, channel]`` again."""
    flat = colours[None, :, :, None, None].expand(-1, -1, -1, 4, 4)
    return view.augment(flat, draws(step))[0, :, :, 1, 1]


def test_brightness_changes_by_factors_on_both_sides_of_one():
    """Grey that no other jitter changes: its contrast is with itself, and it has no colour. Uniform on 1 ± 0.8 s."""
    view = CropColor(strength=0.5, jitter=1.0, grayscale=0.0)
    factor = coloured(view, torch.full((2000, 3), 0.5))[:, 0].double() / 0.5
    assert 0.6 <= factor.min() < 0.61
    assert 1.39 < factor.max() <= 1.4 + 1e-5
    assert float(factor.mean()) == pytest.approx(1, abs=0.02)
    assert float(factor.var()) == pytest.approx(0.8**2 / 12, rel=0.1)


def test_contrast_is_about_the_mean_of_the_image_by_a_factor_of_its_own():
    grey = torch.tensor([0.4, 0.6]).repeat(8).view(1, 1, 1, 1, 16).expand(1, 2000, 3, 16, 16)
    view = CropColor(Crop(smallest=1.0, stretch=1.0), strength=0.5, jitter=1.0, grayscale=0.0)
    seen = view.augment(grey, draws())[0, :, 0].double().flatten(1)
    brightness, high = seen.mean(1) / 0.5, seen.amax(1)
    contrast = (high - seen.amin(1)) / 0.2 / brightness
    inside = high < 0.999
    assert inside.float().mean() > 0.9
    assert 0.59 < contrast.min() < 0.62
    assert 1.38 < contrast.max() < 1.41
    assert abs(float(torch.corrcoef(torch.stack([contrast, brightness])[:, inside])[0, 1])) < 0.1


def test_saturation_and_hue_change_by_amounts_of_their_own():
    """A soft red: hue in turns, and how far its channels are apart over their mean, which brightness leaves."""
    view = CropColor(strength=0.5, jitter=1.0, grayscale=0.0)
    seen = coloured(view, torch.tensor([[0.5, 0.4, 0.4]]).expand(2000, 3)).double()
    red, green, blue = seen.unbind(1)
    hue = (green - blue) / (red - torch.minimum(green, blue)) / 6
    assert (red == seen.amax(1)).all()
    assert -0.101 < hue.min() < -0.09
    assert 0.09 < hue.max() < 0.101
    assert float(hue.mean()) == pytest.approx(0, abs=0.005)
    share = (seen.amax(1) - seen.amin(1)) / seen.amax(1)
    luma = 0.299 * 0.5 + 0.701 * 0.4
    colour = share * luma / (0.1 - share * (0.5 - luma))  # the factors of contrast and of saturation, multiplied
    assert float(colour.mean()) == pytest.approx(1, abs=0.04)
    assert float(colour.var()) == pytest.approx((1 + 0.8**2 / 12) ** 2 - 1, rel=0.12)
    assert abs(float(torch.corrcoef(torch.stack([hue, colour]))[0, 1])) < 0.15


def test_views_are_jittered_and_grey_as_often_as_said_and_one_does_not_tell_of_the_other():
    """4000 images in two replicas, which share no number; shares to five standard errors."""
    view = CropColor(Crop(smallest=1.0, stretch=1.0), jitter=0.7, grayscale=0.3)
    flat = torch.tensor([0.5, 0.4, 0.3])[None, None, :, None, None].expand(2, 2000, -1, 4, 4)
    for seen in view(flat, Streams(0, range(2)).at("view")):
        one = seen[..., 1, 1].double()
        grey = (one.amax(-1) - one.amin(-1)) < 1e-6
        of_grey = (one[..., 0] - (0.299 * 0.5 + 0.587 * 0.4 + 0.114 * 0.3)).abs() < 1e-4
        kept = ((one - torch.tensor([0.5, 0.4, 0.3])).abs().amax(-1) < 1e-5) | (grey & of_grey)
        assert float(grey.double().mean()) == pytest.approx(0.3, abs=0.036)
        assert float(kept.double().mean()) == pytest.approx(0.3, abs=0.036)
        assert float((grey & kept).double().mean()) == pytest.approx(0.09, abs=0.023)
        assert float((grey[0] & grey[1]).double().mean()) == pytest.approx(0.09, abs=0.032)
