"""A batch without samples has no loss: it is refused by name, where a mean over nothing would be NaN."""

import jaxtyping
import pytest
import torch

from featscope.losses import InfoNCE, NonContrastive, NTXent, NuclearNorm

NOTHING, SOME = torch.zeros(0, 4), torch.ones(3, 4)


@pytest.mark.parametrize(
    ("loss", "given", "named"),
    [
        (NTXent(), (NOTHING, NOTHING), "anchor"),
        (NTXent().of_views, (NOTHING, NOTHING), "anchor"),
        (InfoNCE(), (NOTHING, NOTHING, SOME), "anchor"),
        (InfoNCE(), (SOME, SOME, NOTHING), "negatives"),
        (InfoNCE().in_batch, (NOTHING, NOTHING), "anchor"),
        (NonContrastive("l2"), (NOTHING, NOTHING), "prediction"),
        (NonContrastive("none"), (NOTHING, NOTHING), "prediction"),
        (NuclearNorm(), (NOTHING,), "features"),
    ],
)
def test_it_is_refused(loss, given, named):
    with pytest.raises(ValueError, match=rf"{named} has shape \[0, 4\]: expected a row or more"):
        loss(*given)


def test_a_row_in_place_of_a_matrix_is_refused_by_its_shape(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses it first, in tests alone
    with pytest.raises(ValueError, match=r"features has shape \[5\]: expected \[batch, neuron\]"):
        NuclearNorm(0.01)(torch.zeros(5))
