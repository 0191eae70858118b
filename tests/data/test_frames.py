"""Random orthonormal frames."""

import pytest
import torch

from featscope.data.frames import orthonormal_columns
from featscope.streams import Streams


@pytest.mark.parametrize(("dimension", "count"), [(5, 5), (9, 4)])
def test_frames_are_orthonormal_and_uniform_up_to_signs_of_coordinates(dimension, count, monkeypatch):
    """With the signs of coordinates changed in what is drawn a frame has those of coordinates and of columns changed.

    So changed at random, it has columns of random signs, which make a Q uniform.
    """
    draws = lambda: Streams(0, range(64)).at("frame")  # noqa: E731
    frame = orthonormal_columns(draws(), dimension, count)
    torch.testing.assert_close(frame.mT @ frame, torch.eye(count).double().expand(64, -1, -1))
    assert (frame[:, 0, 0] < 0).all()
    signs, normal = 2 * torch.randint(2, (64, dimension, 1)).double() - 1, Streams(0, range(64)).at("frame").normal
    monkeypatch.setattr(
        "featscope.streams.Draws.normal", lambda its, *shape, dtype: signs * normal(*shape, dtype=dtype)
    )
    torch.testing.assert_close(orthonormal_columns(draws(), dimension, count), signs * frame * signs[:, :count].mT)
