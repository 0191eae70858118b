"""Long-tailed selections of images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from featscope.data import Images, LongTailedImages, class_sizes
from featscope.data.long_tail import head_to_tail, spread
from featscope.data.splits import open_split
from featscope.options import ConfigError
from featscope.streams import Streams

pa = pytest.importorskip("pyarrow", reason="extra 'images' is not installed")
pytest.importorskip("datasets", reason="extra 'images' is not installed")
pq = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"


def draws(replica: int = 0):
    return Streams(0, [replica]).at("data")


def write_images(folder: Path, sizes: dict[str, list[int]], column: str = "label") -> None:
    """A data set as the Hub lays it out; image i of class k is constant with value 40 k + i."""
    import io

    for split, counts in sizes.items():
        labels = [label for label, count in enumerate(counts) for _ in range(count)]
        images = []
        for label, number in ((label, n) for label, count in enumerate(counts) for n in range(count)):
            Image.fromarray(np.full((4, 4, 3), 40 * label + number, np.uint8)).save(buffer := io.BytesIO(), "PNG")
            images.append({"bytes": buffer.getvalue(), "path": None})
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.table({"img": pa.array(images, kind), column: pa.array(labels, pa.int64())})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")


@pytest.mark.parametrize(
    ("classes", "largest", "totals"),
    [(10, 5000, {10: 20431, 50: 13996, 100: 12406}), (100, 500, {10: 19573, 50: 12608, 100: 10847})],
)
def test_class_sizes_are_those_of_cifar_lt(classes, largest, totals):
    for ratio, total in totals.items():
        sizes = class_sizes(classes, largest, ratio)
        assert sum(sizes) == total
        assert sizes[0] == largest
        assert sizes[-1] == largest // ratio
        assert sizes == sorted(sizes, reverse=True)


def test_without_imbalance_all_classes_are_of_one_size():
    assert class_sizes(7, 30, 1.0) == [30] * 7


def test_a_class_without_images_is_an_error():
    with pytest.raises(ConfigError, match=r"^imbalance = 100 .* at most 99"):
        class_sizes(10, 99, 100.0)


@pytest.mark.parametrize("classes", [0, 1])
def test_a_long_tail_has_two_classes_or_more(classes):
    with pytest.raises(ConfigError, match=rf"^classes = {classes} .* 2 or more"):
        class_sizes(classes, 100, 10.0)


@pytest.mark.parametrize("ratio", [0.0, 0.5, float("nan")])
def test_a_last_class_that_would_be_the_largest_is_an_error(ratio):
    with pytest.raises(ConfigError, match=rf"^imbalance = {ratio:g} .* >= 1"):
        class_sizes(8, 100, ratio)


def test_spread_keeps_the_number_of_images():
    assert spread(23, 4) == [6, 6, 6, 5]


def test_head_and_tail_go_by_size():
    assert head_to_tail([5, 9, 9, 1]) == (1, 2, 0, 3)


def test_the_selection_is_long_tailed_and_the_other_sets_are_balanced(tmp_path):
    write_images(tmp_path, {"train": [20, 20, 20], "test": [6, 7, 6]})
    source = LongTailedImages(str(tmp_path), ratio=16, largest=16, probe=8, test=0).build(draws())
    assert torch.bincount(source.train_set.labels).tolist() == [16, 4, 1]
    assert torch.bincount(source.probe_set.labels).tolist() == [8, 8, 8]  # more than there are to be tested on
    assert torch.bincount(source.test_set.labels).tolist() == [6, 6, 6]
    assert source.head_to_tail == (0, 1, 2)
    for images in (source.train_set, source.probe_set, source.test_set):
        assert torch.equal(images.pixels[:, 0, 0, 0].long() // 40, images.labels)
        assert len(images.pixels.unique(dim=0)) == len(images.labels)
    assert not source.state_dict()


def test_the_balanced_control_has_as_many_images_and_shares_what_it_can(tmp_path):
    write_images(tmp_path, {"train": [20, 20, 20], "test": [6, 6, 6]})
    tail, even = (
        LongTailedImages(str(tmp_path), ratio=16, largest=16, balanced=balanced).build(draws())
        for balanced in (False, True)
    )
    assert torch.bincount(even.train_set.labels).tolist() == [7, 7, 7]
    assert even.head_to_tail == tail.head_to_tail
    in_tail, in_even = ({int(p) for p in s.train_set.pixels[:, 0, 0, 0]} for s in (tail, even))
    assert len(in_tail & in_even) == 7 + 4 + 1
    assert torch.equal(tail.probe_set.pixels, even.probe_set.pixels)


@pytest.mark.parametrize(("split", "counts"), [("test", [6, 6]), ("test", [6, 0, 6]), ("test", [6, 6, 6, 6])])
def test_splits_of_other_classes_are_refused(split, counts, tmp_path):
    write_images(tmp_path, {"train": [20, 20, 20], "test": [6, 6, 6]} | {split: counts})
    with pytest.raises(ConfigError, match="splits that have images of the same 3 classes"):
        LongTailedImages(str(tmp_path), ratio=4, largest=8).build(draws())


def test_a_single_class_has_no_tail(tmp_path):
    write_images(tmp_path, {"train": [20], "test": [6]})
    with pytest.raises(ConfigError, match="two classes or more"):
        LongTailedImages(str(tmp_path), ratio=4, largest=8).build(draws())


def test_what_is_long_tailed_as_it_is_needs_lists_of_its_own(tmp_path):
    """Without a split "test" read-outs would be fitted to what they are measured on."""
    write_images(tmp_path, {"train": [5, 3, 2], "val": [2, 2, 2]})
    with pytest.raises(ConfigError, match=r"test-\*\.parquet"):
        LongTailedImages(str(tmp_path), ratio=None).build(draws())
    with pytest.raises(ConfigError, match="split 'val'"):
        LongTailedImages("digits", ratio=None).build(draws())


def test_a_class_that_is_long_tailed_as_it_is_has_no_more_than_the_largest(tmp_path):
    write_images(tmp_path, {"train": [9, 5, 2], "val": [2, 2, 2], "test": [2, 2, 2]})
    for largest, sizes in ((3, [3, 3, 2]), (0, [9, 5, 2])):
        source = LongTailedImages(str(tmp_path), ratio=None, largest=largest).build(draws())
        assert torch.bincount(source.train_set.labels).tolist() == sizes


def test_of_two_lists_none_is_guessed(tmp_path):
    for name in ("A_train", "B_train", "the_latest", "A_test"):
        (tmp_path / f"{name}.txt").write_text("a.png 0\nb.png 1\n")
    with pytest.raises(ConfigError, match=r"There are A_train\.txt, B_train\.txt"):
        open_split(str(tmp_path), "train")
    assert len(open_split(str(tmp_path), "test").labels) == 2


def test_shapes_are_brought_to_a_side():
    whole, half = (LongTailedImages("shapes", 2, 4, False, 2, 2, side).build(draws()) for side in (0, 16))
    for name in ("train_set", "probe_set", "test_set"):
        assert getattr(half, name).pixels.shape[1:] == (3, 16, 16)
        assert torch.equal(getattr(half, name).labels, getattr(whole, name).labels)


@pytest.mark.parametrize("data", [Images("shapes", 4, 4), LongTailedImages("shapes", 2, 4, probe=2, test=2)])
def test_images_of_several_replicas_at_once_are_refused(data):
    with pytest.raises(ValueError, match="replicas = 2: allowed is 1, as a replica of images is an experiment"):
        data.build(Streams(0, range(2)).at("data"))


def test_replicas_choose_their_own_images(tmp_path):
    write_images(tmp_path, {"train": [20, 20, 20], "test": [6, 6, 6]})
    config = LongTailedImages(str(tmp_path), ratio=4, largest=8)
    first, again, other = (config.build(draws(replica)).train_set.pixels for replica in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_cifar100_is_read_by_its_fine_labels(tmp_path):
    from datasets import ClassLabel, Dataset, Features
    from datasets import Image as ImageFeature

    write_images(tmp_path, {"train": [4, 4, 4], "test": [2, 2, 2]}, column="fine_label")
    names = {"coarse_label": ["living", "thing"], "fine_label": ["cat", "dog", "cup"]}
    for file in tmp_path.glob("*.parquet"):
        columns = pq.read_table(file).to_pydict()
        columns = {"coarse_label": [label // 2 for label in columns["fine_label"]]} | columns
        features = Features(
            {name: ClassLabel(names=names[name]) if name in names else ImageFeature() for name in columns}
        )
        Dataset.from_dict(columns, features=features).to_parquet(file)
    source = LongTailedImages(str(tmp_path), ratio=4, largest=4).build(draws())
    assert source.class_names == ("cat", "dog", "cup")
    assert torch.bincount(source.train_set.labels).tolist() == [4, 2, 1]


def test_an_image_folder_with_lists_is_taken_as_long_tailed_as_it_is(tmp_path):
    """The layout of ImageNet-LT: lists beside the folders of images, which have sizes of their own."""
    (tmp_path / "photos").mkdir()
    for label in range(3):
        Image.new("RGB", (20, 10 + label), (80 * label, 0, 0)).save(tmp_path / "photos" / f"{label} of 3.jpeg")
    for split, sizes in {"train": (2, 5, 1), "val": (2, 2, 2), "test": (3, 3, 3)}.items():
        lines = [f"photos/{label} of 3.jpeg {label}\n" for label, size in enumerate(sizes) for _ in range(size)]
        mark = "\ufeff" if split == "train" else ""  # as editors on Windows write it
        (tmp_path / f"ImageNet_LT_{split}.txt").write_text(mark + "".join(lines), "utf-8")
    source = LongTailedImages(str(tmp_path), ratio=None, side=8).build(draws())
    assert torch.bincount(source.train_set.labels).tolist() == [2, 5, 1]
    assert torch.bincount(source.probe_set.labels).tolist() == [2, 2, 2]
    assert len(source.test_set.labels) == 9
    assert source.head_to_tail == (1, 0, 2)
    assert source.train_set.pixels.shape[1:] == (3, 8, 8)
    red = source.train_set.pixels[:, 0].float().mean((-2, -1)) / 80
    assert torch.equal(red.round().long(), source.train_set.labels)


@pytest.mark.parametrize(("text", "named"), [("a.jpeg 1\nb.jpeg\n", "'b.jpeg'"), ("a.jpeg x\n", "x"), ("", "empty")])
def test_a_broken_list_is_named(tmp_path, text, named):
    (tmp_path / "my_train.txt").write_text(text)
    with pytest.raises(ConfigError, match=f"lines 'path label' in my_train.txt.*{named}"):
        LongTailedImages(str(tmp_path), ratio=None).build(draws())


def test_a_listed_image_that_is_not_there_is_named(tmp_path):
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.txt").write_text("nowhere.jpeg 0\nnowhere.jpeg 1\n")
    with pytest.raises(ConfigError, match=r"Image [01] cannot.*nowhere\.jpeg"):
        LongTailedImages(str(tmp_path), ratio=None).build(draws())


def test_more_images_than_a_class_has_is_an_error(tmp_path):
    write_images(tmp_path, {"train": [6, 6, 6], "test": [2, 2, 2]})
    with pytest.raises(ConfigError, match=r"largest = 7 .* at most 6 images of class 0 .* 7 are wanted"):
        LongTailedImages(str(tmp_path), largest=7, ratio=2).build(draws())


def test_shapes_need_no_files():
    source = LongTailedImages("shapes", ratio=10, largest=30, probe=4, test=3).build(draws())
    assert torch.bincount(source.train_set.labels).tolist() == class_sizes(8, 30, 10)
    assert torch.bincount(source.probe_set.labels).tolist() == [4] * 8
    assert torch.bincount(source.test_set.labels).tolist() == [3] * 8
    few = {"largest": 30, "probe": 4}
    same = LongTailedImages("shapes", ratio=10, largest=None, probe=None, test=3, on_cpu=few).build(draws())
    assert torch.equal(same.probe_set.pixels, source.probe_set.pixels)
    even = LongTailedImages("shapes", ratio=10, largest=30, balanced=True, probe=4, test=3).build(draws())
    assert torch.bincount(even.train_set.labels).tolist() == spread(sum(class_sizes(8, 30, 10)), 8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": ""},
        {"ratio": 0.5},
        {"largest": -1},
        {"probe": -1},
        {"side": -1},
        {"source": "shapes", "largest": 5, "probe": 5},
        {"source": "shapes", "ratio": None, "largest": 5, "probe": 5, "test": 5},
    ],
)
def test_wrong_options_are_named(wrong):
    with pytest.raises(ConfigError, match=r"LongTailedImages\."):
        LongTailedImages(**wrong)


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
def test_the_real_copy():
    source = LongTailedImages(str(CIFAR10), ratio=100, largest=200, probe=3, test=2).build(draws())
    assert torch.bincount(source.train_set.labels).tolist() == class_sizes(10, 200, 100)
    assert source.train_set.pixels.shape[1:] == (3, 32, 32)
