"""A batch without samples has no loss: it is refused by name, where a mean over nothing would be NaN."""

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
