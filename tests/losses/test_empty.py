"""A batch without samples has no loss: it is refused by name, where a mean over nothing would be NaN."""

import jaxtyping
import pytest
import torch

from featscope.losses import ContrastiveRegularizer, InfoNCE, NonContrastive, NTXent, NuclearNorm

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


@pytest.mark.parametrize("normalization", ["batch", "l2", "none"])
def test_vectors_in_place_of_batches_are_refused_by_their_shape(normalization, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ValueError, match=r"prediction has shape \[4\]: expected \[batch, neuron\]"):
        NonContrastive(normalization)(torch.rand(4), torch.rand(4))


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        (NTXent(), 2),
        (NTXent().of_views, 2),
        (InfoNCE(), 3),
        (InfoNCE().in_batch, 2),
        (NonContrastive(), 2),
        (NuclearNorm(), 1),
        (lambda x: NuclearNorm(warmup=2)(x, 0), 1),
        (ContrastiveRegularizer().of_features, 2),
    ],
)
def test_arrays_of_numpy_are_refused_with_the_cure(loss, count, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    for place in range(count):
        given = [SOME] * count
        given[place] = SOME.numpy()
        with pytest.raises(
            TypeError, match=r"got a ndarray: expected a torch\.Tensor, torch\.as_tensor\(x\) makes one"
        ):
            loss(*given)
