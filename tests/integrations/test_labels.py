"""Which entry of what is held out is taken for the labels, and what is said of them."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from featscope.integrations import Monitor
from featscope.integrations.held_out import HeldOut


def test_a_class_that_may_be_outvoted_however_well_it_is_told_apart_is_told():
    x, y = torch.randn(30, 6), torch.arange(30) % 3 + 5
    with pytest.warns(UserWarning, match=r"neighbours = 20: .* of 3 classes \(class 5, say\) .* Give 18 neighb"):
        Monitor(nn.Identity(), [(x, y)])
    with pytest.warns(
        UserWarning, match="neighbours = 9: held_out has so few samples of class 6 that .* Give 2 neighb"
    ):
        Monitor(nn.Identity(), [(x[:20], torch.tensor([5, 6, 6] + 17 * [5]))], neighbours=9)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="neighbours")
        Monitor(nn.Identity(), [(x, y)], neighbours=18)  # nine of its own are half of them, and nearer
        Monitor(
            nn.Identity(), [(x[:20], torch.tensor([5, 6] + 18 * [5]))], neighbours=9
        )  # one alone has none of its own
        Monitor(nn.Identity(), [(x[:6], torch.tensor([6] + 5 * [5]))])  # all others vote, nearly all of its own
        Monitor(nn.Identity(), [x])
        HeldOut([(x, y)], 30)


def test_a_tuple_of_which_several_entries_could_be_labels_is_told_with_the_cure():
    x, lengths, y = torch.randn(30, 6), torch.arange(30) % 4 + 3, torch.arange(30) % 3
    with pytest.warns(UserWarning, match=r"batch\[1\] is .*, and batch\[2\] could .* \(\(batch\[0\], batch\[2\]\) for"):
        Monitor(nn.Identity(), [(x, lengths, y)], neighbours=3)
    with pytest.warns(UserWarning, match=r"and batch\[2\] and batch\[4\] could be labels, too"):
        HeldOut([(x, lengths, y, x, y)], 30)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="held_out")
        assert HeldOut([(x, y)], 30).labels.tolist() == y.tolist()
        assert HeldOut([{"x": x, "lengths": lengths, "labels": y}], 30).labels.tolist() == y.tolist()
        assert HeldOut([(x, y, x, torch.rand(30), y - 1)], 30).labels.tolist() == y.tolist()
        assert HeldOut([(x, y, torch.arange(30))], 30).labels.tolist() == y.tolist()  # numbers of samples
        assert HeldOut([(x, y, y > 0)], 30).labels.tolist() == y.tolist()  # a mask
        assert HeldOut(((batch[0], batch[1]) for batch in [(x, y, lengths)]), 30).labels.tolist() == y.tolist()


@pytest.mark.parametrize("numbers", [torch.arange(40), torch.arange(40).flip(0) + 70_000])
def test_numbers_of_samples_are_no_labels(numbers):
    """Nor would they be of use if each was a class: nobody else could name it."""
    x, y = torch.randn(40, 6), torch.arange(40) % 3
    batches = [(x[:20], numbers[:20]), (x[20:], numbers[20:])]
    with pytest.warns(UserWarning, match=r"no labels, .* batch\[1\] holds another number for each of the 40 samples"):
        monitor = Monitor(nn.Identity(), batches)
    assert not [name for name in monitor.latest if "accuracy" in name]
    with pytest.warns(UserWarning, match=r"batch\[2\] could be labels, .* \(\(batch\[0\], batch\[2\]\) for"):
        assert HeldOut([(x, numbers, y)], 40).labels is None
    with pytest.warns(UserWarning, match=r'batch\["label"\] holds another number'):
        assert HeldOut([{"x": x, "label": numbers}], 40).labels is None
    shared = numbers.clone()
    shared[1] = shared[0]
    assert HeldOut([(x, shared)], 40).labels.tolist() == shared.tolist()


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (lambda y: [("cat", "dog", "owl")[one] for one in y], r"text, 'cat' for one\. Give the number"),
        (lambda y: np.array([f"n{one}" for one in y.tolist()]), "text, 'n0' for one"),
        (lambda y: y.float(), r"floats that are whole, 0\.0 for one\. .* \.long\(\)"),
        (lambda y: (y > 1).float()[:, None], "floats that are whole"),
        (lambda y: y.numpy().astype(np.float32), "floats that are whole"),
        (lambda y: nn.functional.one_hot(y), r"a row with a single 1 .* argmax\(1\)"),
        (lambda y: nn.functional.one_hot(y).float(), "a row with a single 1"),
    ],
)
def test_classes_that_are_no_whole_numbers_are_told_with_the_cure(form, told):
    x, y = torch.randn(30, 6), torch.arange(30) % 3
    with pytest.warns(UserWarning, match=rf"no labels, and there are no accuracies: batch\[1\] holds {told}"):
        assert HeldOut([(x, form(y))], 30).labels is None
    with pytest.warns(UserWarning, match=rf'batch\["labels"\] holds {told}'):
        assert HeldOut([{"x": x, "labels": form(y)}], 30).labels is None


def test_what_is_measured_or_names_samples_is_not_taken_for_classes():
    x, y = torch.randn(30, 6), torch.arange(30)
    masked = torch.where(y % 3 == 0, torch.nan, y.float())
    pairs = torch.stack([y % 2, y % 3 % 2], 1)  # several truths for each
    for lacking in (np.ma.masked_equal(y.numpy() % 3, 2), np.ma.masked_array(y.numpy() % 2 == 0, y.numpy() == 3)):
        with pytest.warns(UserWarning, match=r"labels, .* batch\[1\] holds -1, .* Leave samples without a class out"):
            assert HeldOut([(x, lacking)], 30).labels is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names, ages = [f"{one}.jpg" for one in y], (y % 20).float()
        captions = [f"a dog by the sea {one % 28}" for one in y]  # of which two are equal
        for other in (names, captions, torch.randn(30), y.float(), ages, masked, pairs, pairs.float(), y[:1]):
            assert HeldOut([(x, other)], 30).labels is None


@pytest.mark.parametrize(
    "form",
    [list, lambda y: [*y.numpy()], *(lambda y, d=d: y.to(d) for d in (torch.uint8, torch.uint16, torch.uint64))],
)
def test_whole_numbers_of_any_kind_are_labels(form):
    x, y = torch.randn(30, 6), torch.arange(30) % 3
    assert HeldOut([(x, form(y))], 30).labels.tolist() == y.tolist()
    assert HeldOut([(x, [np.bool_(one) for one in y > 0])], 30).labels.tolist() == (y > 0).long().tolist()


def test_labels_that_are_not_taken_are_told_with_the_cure():
    x, y = torch.randn(30, 6), torch.arange(30) % 3
    some = y.clone()
    some[4] = -1
    for batches, entry in (([(x, y), (x, some)], r"batch\[1\]"), ([{"x": x, "labels": some}], r'batch\["labels"\]')):
        with pytest.warns(UserWarning, match=rf"no labels, .* {entry} holds -1, allowed are whole numbers from 0 on"):
            assert HeldOut(batches, 60).labels is None
    with pytest.warns(UserWarning, match=r"batch\[2\] could be labels, .* \(\(batch\[0\], batch\[2\]\) for"):
        assert HeldOut([(x, x, y)], 30).labels is None
    with pytest.warns(UserWarning, match=r'batch\["target"\] could be labels, .* Call batch\["target"\] "labels"'):
        assert HeldOut([{"x": x, "target": y}], 30).labels is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in (x, (x, x), (x, x[:, 0]), (x, ["a"] * 30), {"tokens": some[:, None].expand(30, 4), "labels": x}):
            assert HeldOut([batch], 30).labels is None


def test_an_array_that_a_loader_fills_again_keeps_what_it_was():
    def batches():
        buffer = np.zeros(30, int)
        for label in (1, 2):
            buffer[:] = label
            yield torch.randn(30, 6), buffer

    assert HeldOut(batches(), 60).labels.tolist() == [1] * 30 + [2] * 30


def test_labels_in_a_column_or_a_list_are_labels():
    x, y = torch.randn(30, 6), torch.arange(30) % 3
    arrays = y.numpy(), y.numpy().astype(np.uint8), y[:, None].numpy(), list(y.numpy())
    for labels in (y[:, None], y.tolist(), *arrays):
        assert HeldOut([(x, labels)], 30).labels.tolist() == y.tolist()
        assert HeldOut([{"x": x, "labels": labels}], 30).labels.tolist() == y.tolist()
    for batch in ((x, y.numpy() * 1.0), (x, y.numpy().astype(str))):
        assert HeldOut([batch], 30).labels is None
    named = [2**127 + sample for sample in range(30)]  # as of uuid
    assert HeldOut([(x, y, named)], 30).labels.tolist() == y.tolist()
    assert HeldOut([{"x": x, "id": named}], 30).labels is None
