"""Procedural shapes."""

import jaxtyping
import pytest
import torch

from featscope.data import shapes
from featscope.data.shapes import COLOURS, SHAPES, SIZE, draw_shapes
from featscope.options import ConfigError
from featscope.streams import Streams


def test_images_are_a_function_of_the_address():
    draw = lambda replica: draw_shapes(8, Streams(1, [replica]).at("data"))  # noqa: E731
    assert all(torch.equal(a, b) for a, b in zip(draw(0), draw(0), strict=True))
    assert not torch.equal(draw(0)[0], draw(1)[0])


def test_shape_and_colour_are_independent_and_uniform():
    images, labels, colours = draw_shapes(4000, Streams(0, [0]).at("data"))
    assert images.shape == (4000, 3, SIZE, SIZE)
    assert images.dtype == torch.uint8
    cells = torch.bincount(labels * len(COLOURS) + colours, minlength=len(SHAPES) * len(COLOURS))
    expected = 4000 / (len(SHAPES) * len(COLOURS))
    assert (cells - expected).abs().max() < 5 * expected**0.5


def test_the_shape_has_its_colour():
    images, labels, colours = draw_shapes(500, Streams(0, [0]).at("data"))
    # Discs cover their centre, which is at most 0.35 from the image's middle, radius at least 0.45: the
    # middle is inside.
    red, blue = (images[(labels == 0) & (colours == COLOURS.index(name))] for name in ("red", "blue"))
    middle = lambda chosen: chosen[:, :, SIZE // 2, SIZE // 2].float().mean(0)  # noqa: E731
    assert middle(red)[0] > middle(red)[2] + 50
    assert middle(blue)[2] > middle(blue)[0] + 50


def test_radius_and_angle_are_as_said_and_independent(monkeypatch):
    seen, masks = {}, shapes._masks
    monkeypatch.setattr(shapes, "_masks", lambda labels, **places: seen.update(places) or masks(labels, **places))
    images, _, _ = draw_shapes(2000, Streams(0, [0]).at("data"))
    radius, angle, centre = seen["radius"] * SIZE / 2, seen["angle"], seen["centre"]
    assert 8 <= radius.min() < 8.1
    assert 11.9 < radius.max() <= 12
    assert 0 <= angle.min() < 0.02
    assert 6.26 < angle.max() < 6.2832
    assert 0.34 < centre.abs().max() <= 0.35
    known = torch.corrcoef(torch.stack([radius, angle, *centre.T])).fill_diagonal_(0)
    assert known.abs().max() < 0.11  # five standard errors
    bent = images.double().diff(n=2, dim=-1).abs() / 255  # of what is smooth but for noise, mostly
    assert float(bent.median()) == pytest.approx(0.6745 * 6**0.5 * 0.03, rel=0.25)


@pytest.mark.parametrize("labels", [[99, 0], [-1, 0], [1, 2, 3], [[1], [2]]])
def test_labels_that_are_no_shapes_or_not_one_an_image_are_refused(labels, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which knows shapes, in tests alone
    with pytest.raises(ConfigError, match=r"labels have shape \[.*\] and values .*: allowed are \[2\], .* and 0 to 7"):
        draw_shapes(2, Streams(0, [0]).at("data"), torch.tensor(labels))
