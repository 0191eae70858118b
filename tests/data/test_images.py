"""Loading labelled images."""

import io
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from featscope import registry
from featscope.data import Images, LongTailedImages, splits
from featscope.data.encoded_images import EncodedImages
from featscope.data.image_pool import ImagePool
from featscope.data.images import as_float
from featscope.data.splits import open_split
from featscope.options import ConfigError
from featscope.streams import Streams

pa = pytest.importorskip("pyarrow", reason="extra 'images' is not installed")
pytest.importorskip("datasets", reason="extra 'images' is not installed")
pq = pytest.importorskip("pyarrow.parquet")

CIFAR10 = Path(__file__).parents[3] / "shared" / "data" / "cifar10"


def png(array: np.ndarray) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


def tiff(array: np.ndarray) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "TIFF")
    return buffer.getvalue()


def deep_png(kind: int, channels: int) -> bytes:
    """8 x 8 pixels of 16 bits a channel, which Pillow reads and does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head, rows = struct.pack(">IIBBBBB", 8, 8, 16, kind, 0, 0, 0), (b"\0" + bytes([9, 200]) * 8 * channels) * 8
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def deep_tiff() -> bytes:
    """8 x 8 pixels of 16 bits in each of three channels."""
    words = {256: 8, 257: 8, 259: 1, 262: 2, 273: 200, 277: 3, 278: 8, 279: 384}
    tags = {tag: struct.pack("<HHII", tag, 3, 1, value) for tag, value in words.items()}
    tags[258] = struct.pack("<HHII", 258, 3, 3, 190)  # bits, which stand there
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(tags[tag] for tag in sorted(tags)) + bytes(4)
    return head.ljust(190, b"\0") + struct.pack("<HHH", 16, 16, 16) + bytes(4) + bytes([200, 9]) * 192


def write_copy(folder: Path, count: int = 12, columns: tuple[str, str] = ("img", "label"), size: int = 8) -> np.ndarray:
    """A data set as the Hub lays it out; image i is constant with value 10 i, class i mod 3."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = np.stack([np.full((size, size, 3), 10 * i, dtype=np.uint8) for i in range(count)])
    images = [{"bytes": png(array), "path": None} for array in arrays]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {columns[0]: pa.array(images, kind), columns[1]: pa.array([i % 3 for i in range(count)], pa.int64())}
    )
    for split in ("train", "test"):
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    return arrays


def draws(replica: int = 0):
    return Streams(0, [replica]).at("data")


def test_a_local_copy_is_read_and_labels_stay_with_their_images(tmp_path):
    write_copy(tmp_path / "plain_text")
    source = Images(str(tmp_path), train=7, test=0).build(draws())
    assert source.train_set.pixels.shape == (7, 3, 8, 8)
    assert len(source.test_set.labels) == 12
    number = source.train_set.pixels[:, 0, 0, 0].long() // 10
    assert torch.equal(number % 3, source.train_set.labels)
    assert source.class_names == ("class 0", "class 1", "class 2")
    assert Images(str(tmp_path), train=0, test=1).build(draws()).train_set.pixels.shape[0] == 12


def test_images_are_brought_to_a_side(tmp_path):
    write_copy(tmp_path)
    scaled = Images(str(tmp_path), train=0, test=0, side=4).build(draws())
    assert scaled.train_set.pixels.shape == (12, 3, 4, 4)
    assert set(scaled.train_set.pixels.flatten().tolist()) == set(range(0, 120, 10))  # they are constant
    whole, half = (Images("shapes", 6, 2, side).build(draws()).train_set for side in (0, 16))
    assert half.pixels.shape == (6, 3, 16, 16)
    assert torch.equal(half.labels, whole.labels)
    means = whole.pixels.double().mean((-2, -1)), half.pixels.double().mean((-2, -1))
    torch.testing.assert_close(*means, atol=1.0, rtol=0)


def test_of_images_that_are_no_square_the_centre_is_kept_and_what_is_fine_is_averaged(tmp_path):
    write_copy(tmp_path)
    wide = np.full((8, 16, 3), 250, np.uint8)
    wide[:, 4:12] = 200 * (np.indices((8, 8)).sum(0) % 2)[..., None]
    rewrite(tmp_path, [0, 1], [{"bytes": png(wide), "path": None}] * 2)
    (pixels,) = open_split(str(tmp_path), "train", 4).pixels(torch.tensor([0])).float()
    assert (pixels - 100).abs().max() < 40


def test_bundled_digits_are_as_bright_as_they_were_and_four_fifths_are_trained_on():
    from sklearn.datasets import load_digits

    known, parts = load_digits(), [open_split("digits", split) for split in ("train", "test")]
    assert [len(part.labels) for part in parts] == [1437, 360]
    whole = {np.round(image * 255 / 16).astype(np.uint8).tobytes() for image in known.images}
    found = [part.pixels(torch.arange(len(part.labels))) for part in parts]
    assert {image[channel].numpy().tobytes() for part in found for image in part for channel in range(3)} == whole
    assert torch.equal(torch.cat([part.labels for part in parts]).bincount(), torch.from_numpy(known.target).bincount())


def test_class_names_come_from_the_hubs_metadata(tmp_path):
    write_named(tmp_path, train=["cat", "dog", "emu"], test=["cat", "dog", "emu"])
    assert Images(str(tmp_path), 0, 0).build(draws()).class_names == ("cat", "dog", "emu")


def write_named(folder: Path, **names: list[str]) -> None:
    """A data set as the Hub lays it out; of each split the names of its three classes."""
    from datasets import ClassLabel, Dataset, Features, Image

    write_copy(folder)
    for file in folder.glob("*.parquet"):
        columns = pq.read_table(file).to_pydict()
        features = Features({"img": Image(), "label": ClassLabel(names=names[file.name.split("-")[0]])})
        Dataset.from_dict(columns, features=features).to_parquet(file)


def test_classes_have_one_name_in_all_splits_and_files(tmp_path):
    cats, dogs = ["cat", "dog", "emu"], ["dog", "cat", "emu"]
    write_named(tmp_path / "splits", train=cats, test=dogs)
    for build in (
        lambda source: Images(source, 0, 0).build(draws()),
        lambda source: LongTailedImages(source, ratio=2, largest=2).build(draws()),
        lambda source: ImagePool(source, "test"),
    ):
        with pytest.raises(ConfigError, match=r"Class 0 is 'cat' in train, and 'dog' in test. Number classes alike"):
            build(str(tmp_path / "splits"))
    write_named(tmp_path / "files", train=cats, test=dogs)
    (tmp_path / "files" / "train-00000-of-00001.parquet").rename(tmp_path / "files" / "train-00000-of-00002.parquet")
    (tmp_path / "files" / "test-00000-of-00001.parquet").rename(tmp_path / "files" / "train-00001-of-00002.parquet")
    with pytest.raises(ConfigError, match=r"'cat' in train-00000-of-00002\.parquet, and 'dog' in train-00001-of-00002"):
        open_split(str(tmp_path / "files"), "train")


def test_classes_that_have_only_numbers_in_a_split_may_have_any_name(tmp_path):
    write_named(tmp_path, train=["cat", "dog", "emu"], test=["cat", "dog", "emu"])
    file = tmp_path / "test-00000-of-00001.parquet"
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    assert Images(str(tmp_path), 0, 0).build(draws()).class_names == ("cat", "dog", "emu")


def test_replicas_choose_their_own_images_and_always_the_same(tmp_path):
    write_copy(tmp_path)
    config = Images(str(tmp_path), train=6, test=6)
    first, again, other = (config.build(draws(replica)).train_set.pixels for replica in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_batch_has_distinct_images_in_the_unit_interval():
    source = Images("shapes", train=20, test=5).build(draws())
    sample = source.sample(Streams(0, [0]).at("batch", 3), 20)
    assert sample.x.shape == (1, 20, 3, 32, 32)
    assert sample.labels.shape == (1, 20)
    assert sample.x.min() >= 0
    assert sample.x.max() <= 1
    assert len({image.numpy().tobytes() for image in sample.x[0]}) == 20
    torch.testing.assert_close(as_float(source.train_set.pixels).mean(), sample.x.mean())
    with pytest.raises(ConfigError, match="at most 20"):
        source.sample(draws(), 21)


def test_labels_of_a_batch_are_those_of_its_images_and_white_is_one():
    source = Images("shapes", train=40, test=5).build(draws())
    known = {image.numpy().tobytes(): int(label) for image, label in zip(*source.train_set[:2], strict=True)}
    sample = source.sample(Streams(0, [0]).at("batch"), 30)
    bytes_of = [(255 * image).round().to(torch.uint8).numpy().tobytes() for image in sample.x[0]]
    assert sample.labels[0].tolist() == [known[one] for one in bytes_of]
    assert as_float(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0.0, 0.2, 1.0])


def test_a_pool_gives_the_images_that_are_asked_for_and_grey_is_the_mean_of_colours():
    index, split = torch.tensor([[3, 0, 7], [5, 5, 1]]), open_split("digits", "test")
    found = ImagePool("digits", "test").pixels(index)
    for place in np.ndindex(2, 3):
        assert torch.equal(found[place], split.pixels(index[place][None])[0] / 255)
    shapes = ImagePool("shapes", "test", 8)
    torch.testing.assert_close(shapes.pixels(index, grey=True), shapes.pixels(index).mean(2, keepdim=True))


def test_made_up_images_of_a_pool_are_others_in_each_split_and_the_same_always():
    train, test, again = (ImagePool("shapes", split, 8) for split in ("train", "test", "train"))
    assert float((train.labels[: len(test.labels)] == test.labels).double().mean()) < 0.25  # an eighth by chance
    assert torch.equal(train.labels, again.labels)


def test_images_are_in_no_checkpoint():
    assert not Images("shapes", 5, 5).build(draws()).state_dict()


@pytest.mark.parametrize("name", ["./nowhere", "~nobody/here", "\0", 300 * "x"])
def test_a_missing_folder_is_named_with_the_cures(name):
    with pytest.raises(ConfigError, match=r"existing folder.*shapes.*There is no such folder"):
        Images(name, 1, 1).build(draws())


def test_a_folder_of_another_layout_is_named_with_what_it_holds(tmp_path):
    (tmp_path / "data_batch_1").touch()
    with pytest.raises(ConfigError, match=r"train-\*\.parquet.*data_batch_1"):
        Images(str(tmp_path), 1, 1).build(draws())


def test_a_broken_file_is_named(tmp_path):
    (tmp_path / "train-00000-of-00001.parquet").write_bytes(b"not parquet")
    with pytest.raises(ConfigError, match="readable parquet"):
        Images(str(tmp_path), 1, 1).build(draws())


@pytest.mark.parametrize(("columns", "missing"), [(("picture", "label"), "img or image"), (("img", "kind"), "label")])
def test_missing_columns_are_named(tmp_path, columns, missing):
    write_copy(tmp_path, columns=columns)
    with pytest.raises(ConfigError, match=missing):
        Images(str(tmp_path), 1, 1).build(draws())


def test_a_broken_image_and_a_second_size_are_named(tmp_path):
    for name, odd in (("broken", b"no image"), ("second-size", png(np.zeros((4, 4, 3), np.uint8)))):
        write_copy(tmp_path / name)
        file = tmp_path / name / "train-00000-of-00001.parquet"
        columns = pq.read_table(file).to_pydict()
        columns["img"][5]["bytes"] = odd
        pq.write_table(pa.table(columns), file)
        with pytest.raises(ConfigError, match="Image 5 cannot" if name == "broken" else "one size"):
            Images(str(tmp_path / name), 0, 0).build(draws())


def test_more_images_than_there_are_is_an_error(tmp_path):
    write_copy(tmp_path)
    with pytest.raises(ConfigError, match=r"Images\.train = 13.*at most 12"):
        Images(str(tmp_path), 13, 1).build(draws())


def test_an_unreachable_hub_is_named_with_the_cures(monkeypatch):
    import datasets

    def refuse(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ConfigError, match=r"no route.*Name a folder.*'shapes'"):
        Images("someone/unreachable", 1, 1).build(draws())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Repositories of the Hub as folders below one, which `datasets` itself reads; by "owner/name"."""
    import datasets

    read = datasets.load_dataset

    def load(name, of, split):
        return read(str(tmp_path / name), of, split=split, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", load)
    splits._open.cache_clear()
    yield tmp_path
    splits._open.cache_clear()


def test_of_several_data_sets_in_a_repository_that_of_labelled_images_is_read(hub):
    repository = hub / "ufldl-stanford/svhn"
    for name in ("cropped_digits", "full_numbers"):
        (repository / name).mkdir(parents=True)
    write_copy(repository / "cropped_digits")
    for split in ("train", "test"):
        table = pa.table({"image": pa.array([None], KIND), "digits": [[1]]})
        pq.write_table(table, repository / "full_numbers" / f"{split}-0.parquet")
    configs = "\n".join(
        f"- config_name: {name}\n  data_files:\n  - {{split: train, path: {name}/train-*}}\n"
        f"  - {{split: test, path: {name}/test-*}}"
        for name in ("cropped_digits", "full_numbers")
    )
    (repository / "README.md").write_text(f"---\nconfigs:\n{configs}\n---\n")
    for source in ("svhn", "ufldl-stanford/svhn"):
        assert len(open_split(source, "train").labels) == 12
    with pytest.raises(
        ConfigError, match=r"one data set. There are several: cropped_digits, full_numbers. Name a folder"
    ):
        open_split(str(repository), "train")
    assert len(open_split(str(repository / "cropped_digits"), "test").labels) == 12


@pytest.mark.parametrize("name", ["validation", "valid", "val"])
def test_a_set_without_a_test_is_tested_on_its_validation(name, hub):
    repository = hub / "zh-plus/tiny-imagenet"
    (repository / "data").mkdir(parents=True)
    write_copy(repository / "data")
    for file in (repository / "data").glob("test-*"):
        file.rename(file.with_name(f"{name}-0.parquet"))
    files = f"  - {{split: train, path: data/train-*}}\n  - {{split: {name}, path: data/{name}-*}}"
    (repository / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}\n---\n")
    assert len(open_split("tiny-imagenet", "test").labels) == 12
    assert len(open_split(str(repository), "test").labels) == 12
    with pytest.raises(ConfigError, match=r"the Hub did not give 'other' .*Unknown split"):
        open_split("tiny-imagenet", "other")


def test_sizes_that_depend_on_the_device():
    names, on_cpu = ("train", "test", "side"), {"train": 7, "side": 4}
    photographs = Images("cifar10", None, 3, None, on_cpu)
    shapes = Images("shapes", None, 3, None, on_cpu)
    assert photographs.sizes(torch.device("cpu"), *names) == [7, 3, 4]
    assert photographs.sizes(torch.device("cuda"), *names) == [0, 3, 0]
    assert shapes.sizes(torch.device("cuda"), *names) == [7, 3, 0]  # there is no "all" of a generator
    assert shapes.build(draws()).train_set.pixels.shape == (7, 3, 4, 4)
    with pytest.raises(ConfigError, match=r"Images\.test = None is out of range"):
        Images("cifar10", 7, None, on_cpu=on_cpu)


@pytest.mark.parametrize("wrong", [{"source": ""}, {"train": -1}, {"source": "shapes", "test": 0}])
def test_wrong_options_are_named(wrong):
    with pytest.raises(ConfigError, match=r"Images\."):
        Images(**wrong)


def rewrite(folder: Path, labels: list, images: list | None = None, split: str = "*") -> None:
    """Replace labels, and images."""
    for file in folder.glob(f"{split}-*.parquet"):
        columns = pq.read_table(file).to_pydict()
        chosen = columns["img"][: len(labels)] if images is None else images
        pq.write_table(pa.table({"img": pa.array(chosen, KIND), "label": pa.array(labels, pa.int64())}), file)


KIND = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, None], "1 are null"),
        ([0, 1, -1], "One is -1. Images without a label cannot be used"),
        ([0, 1, 10**12], "labels from 0 to 99999. One is 1000000000000"),
        ([0, 1, 2**62], "labels from 0 to 99999"),
        ([0, 0, 0], "images of two classes or more. All are of one"),
        ([], "one image or more. It has none"),
    ],
)
def test_labels_that_are_none_are_refused(labels, message, tmp_path):
    write_copy(tmp_path)
    rewrite(tmp_path, labels)
    with pytest.raises(ConfigError, match=message):
        Images(str(tmp_path), 0, 0).build(draws())


def test_classes_that_are_never_trained_on_are_refused(tmp_path):
    write_copy(tmp_path)
    rewrite(tmp_path, [0, 1, 7], split="test")
    with pytest.raises(ConfigError, match=r"test images of the 3 classes that are trained on. One has the label 7"):
        Images(str(tmp_path), 0, 0).build(draws())
    with pytest.raises(ConfigError, match=r"test images of the 3 classes that are trained on. One has the label 7"):
        ImagePool(str(tmp_path), "test")


def test_a_class_below_the_last_that_is_never_trained_on_is_refused(tmp_path):
    write_copy(tmp_path)
    rewrite(tmp_path, [1, 2, 1], split="train")
    rewrite(tmp_path, [0, 1, 1], split="test")
    for make in (lambda: Images(str(tmp_path), 0, 0).build(draws()), lambda: ImagePool(str(tmp_path), "test")):
        with pytest.raises(ConfigError, match=r"the 2 classes that are trained on. One has the label 0"):
            make()


def test_images_to_test_on_of_another_size_are_refused(tmp_path):
    write_copy(tmp_path)
    write_copy(tmp_path / "larger", size=9)
    test = tmp_path / "larger" / "test-00000-of-00001.parquet"
    test.replace(tmp_path / test.name)
    for file in (tmp_path / "larger").iterdir():
        file.unlink()
    with pytest.raises(ConfigError, match=r"one size to train and to test on\. They have 8 x 8 and 9 x 9 pixels"):
        Images(str(tmp_path), 0, 0).build(draws())
    assert Images(str(tmp_path), 0, 0, side=8).build(draws()).test_set.pixels.shape[-1] == 8


@pytest.mark.parametrize("metadata", [b'{"info": {"features": {"label": {"_type": "Nope"}}}}', b"{", b"\xff"])
def test_names_of_classes_that_cannot_be_read_are_numbers(tmp_path, metadata):
    write_copy(tmp_path)
    for file in tmp_path.glob("*.parquet"):
        pq.write_table(pq.read_table(file).replace_schema_metadata({b"huggingface": metadata}), file)
    assert Images(str(tmp_path), 0, 0).build(draws()).class_names == ("class 0", "class 1", "class 2")


def test_images_that_are_none_are_refused(tmp_path):
    write_copy(tmp_path)
    bomb = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + 2 * (10**6).to_bytes(4, "big") + b"\x08\x02\0\0\0" + bytes(8)
    for odd in (b"", png(np.zeros((8, 8, 3), np.uint8))[:40], bomb):
        rewrite(tmp_path, [0, 1], [{"bytes": odd, "path": None}] * 2)
        splits._open.cache_clear()
        with pytest.raises(ConfigError, match=r"images that can be decoded\. Image [01] cannot"):
            Images(str(tmp_path), 0, 0).build(draws())
    rewrite(tmp_path, [0, 1], [{"bytes": None, "path": "a.png"}] * 2)
    splits._open.cache_clear()
    with pytest.raises(ConfigError, match=r"encoded bytes for each image\. 2 are null\. Leave these images out"):
        Images(str(tmp_path), 0, 0).build(draws())


def test_images_of_more_than_8_bits_a_channel_are_refused(tmp_path):
    """Greys above 255 would be white, and of colours a half would be left."""
    write_copy(tmp_path)
    grey, floats = png(np.full((8, 8), 40_000, np.uint16)), tiff(np.full((8, 8), 0.5, np.float32))
    colours = (("RGB", deep_png(2, 3)), ("RGBA", deep_png(6, 4)), ("", deep_png(4, 2)), ("RGB", deep_tiff()))
    for mode, data in (("I", grey), ("F", floats), *colours):
        rewrite(tmp_path, [0, 1], [{"bytes": data, "path": None}] * 2)
        splits._open.cache_clear()
        with pytest.raises(ConfigError, match=rf"Image [01] cannot \(mode {mode}.*: more than 8 bits a channel"):
            Images(str(tmp_path), 0, 0).build(draws())
    rewrite(tmp_path, [0, 1], [{"bytes": png(np.full((8, 8), 40, np.uint8)), "path": None}] * 2)
    splits._open.cache_clear()
    assert (Images(str(tmp_path), 0, 0).build(draws()).train_set.pixels == 40).all(), "greys are colours"


def test_a_split_of_which_files_are_missing_is_refused(tmp_path):
    write_copy(tmp_path)
    whole = tmp_path / "train-00000-of-00001.parquet"
    data = whole.read_bytes()
    for part in (0, 2):
        (tmp_path / f"train-{part:05d}-of-00005-{part}ab.parquet").write_bytes(data)
    whole.unlink()
    with pytest.raises(ConfigError, match=r"3 of 5 files are missing, train-00001-of-00005 for one\. Download"):
        Images(str(tmp_path), 0, 0).build(draws())
    for part in (1, 3, 4):
        (tmp_path / f"train-{part:05d}-of-00005.parquet").write_bytes(data)
    assert len(Images(str(tmp_path), 0, 0).build(draws()).train_set.labels) == 60


def test_a_split_in_two_shardings_is_refused(tmp_path):
    """Its images would be read twice."""
    write_copy(tmp_path)
    whole = tmp_path / "train-00000-of-00001.parquet"
    twice = whole.with_name("train-00000-of-00001-bbb.parquet")
    twice.write_bytes(whole.read_bytes())
    with pytest.raises(ConfigError, match=r"train-00000-of-00001 is there twice\. Remove one"):
        open_split(str(tmp_path), "train")
    for part in (0, 1):
        twice.with_name(f"train-0000{part}-of-00002.parquet").write_bytes(whole.read_bytes())
    twice.unlink()
    with pytest.raises(ConfigError, match=r"train is there in parts of 00001 and of 00002\. Remove those of one"):
        open_split(str(tmp_path), "train")
    whole.unlink()
    assert len(open_split(str(tmp_path), "train").labels) == 24


def test_columns_of_files_go_by_their_names(tmp_path):
    arrays = write_copy(tmp_path)
    first, second = (tmp_path / f"train-0000{part}-of-00002.parquet" for part in (0, 1))
    (tmp_path / "train-00000-of-00001.parquet").rename(first)
    table = pq.read_table(first)
    pq.write_table(table.select(["label", "img"]), second)
    images = open_split(str(tmp_path), "train")
    assert images.labels.tolist() == table["label"].to_pylist() * 2
    assert images.pixels(torch.arange(24))[:, 0, 0, 0].tolist() == arrays[:, 0, 0, 0].tolist() * 2
    for columns, message in (
        (["img", "name"], r"'label' is int64 in train-00000-of-00002\.parquet, and not there in train-00001"),
        (["img", "label", "name"], r"'name' is not there in train-00000-of-00002\.parquet, and int64 in train-00001"),
    ):
        pq.write_table(table.append_column("name", table["label"]).select(columns), second)
        with pytest.raises(ConfigError, match=f"have the same columns. {message}.*Write both alike"):
            open_split(str(tmp_path), "train")
    pq.write_table(table.set_column(1, "label", table["label"].cast(pa.int32())), second)
    with pytest.raises(ConfigError, match=r"'label' is int64 in .*, and int32 in train-00001-of-00002\.parquet"):
        open_split(str(tmp_path), "train")


def test_a_split_may_have_more_than_two_gigabytes():
    """One array of bytes has no more; that chunks share their memory makes no difference."""
    chunk = pa.array([{"bytes": bytes(2**27), "path": None}], KIND)
    last = pa.array([{"bytes": png(np.full((8, 8, 3), 7, np.uint8)), "path": None}], KIND)
    table = pa.table({"img": pa.chunked_array([chunk] * 17 + [last]), "label": [i % 2 for i in range(18)]})
    images = EncodedImages.from_table("data", table)
    assert (images.pixels(torch.tensor([17])) == 7).all()


def test_a_folder_that_has_changed_is_read_again(tmp_path, monkeypatch):
    """So is another folder of the same name."""
    for name in ("one", "other"):
        write_copy(tmp_path / name / "data")
    monkeypatch.chdir(tmp_path / "one")
    before = open_split("data", "train")
    assert open_split("data", "train") is before
    rewrite(tmp_path / "one" / "data", [1, 0, 1])
    assert open_split("data", "train").labels.tolist() == [1, 0, 1]
    monkeypatch.chdir(tmp_path / "other")
    assert len(open_split("data", "train").labels) == 12
    (tmp_path / "list").mkdir()
    for text in ("a.png 0\nb.png 1\n", "a.png 1\nb.png 0\n"):
        (tmp_path / "list" / "train.txt").write_text(text)
        os.utime(tmp_path / "list" / "train.txt", ns=(0, len(text) + int(text[6])))
        assert open_split(str(tmp_path / "list"), "train").labels.tolist() == [int(text[6]), int(text[14])]


def test_images_are_upright_as_their_exif_says(tmp_path):
    from PIL import Image

    write_copy(tmp_path)
    told = Image.Exif()
    told[0x0112] = 6  # the camera was turned: what is shown is a quarter turn clockwise of what is stored
    half = np.zeros((8, 8, 3), np.uint8)
    half[:4] = 250
    sound, broken = io.BytesIO(), io.BytesIO()
    Image.fromarray(half).save(sound, "PNG", exif=told)
    Image.fromarray(half).save(broken, "PNG", exif=b"Exif\0\0II*\0")
    rewrite(tmp_path, [0, 1], [{"bytes": file.getvalue(), "path": None} for file in (sound, broken)])
    turned, kept = open_split(str(tmp_path), "train").pixels(torch.arange(2))[:, 0]
    upper = torch.from_numpy(half[..., 0])
    assert torch.equal(turned, upper.rot90(-1))
    assert torch.equal(kept, upper)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe\0", "It cannot be read"),
        (b"", "It is empty"),
        (b"a.png 0\nb.png " + b"9" * 5000, "One is 'b.png 999"),
        (b"a.png 0\nb.png -1", "One is 'b.png -1'"),
        (b"a.png 0\nb.png 999999999", "labels from 0 to 99999"),
        (b"a.png 0\n\0.png 1", "images that can be decoded"),
    ],
)
def test_lists_that_are_none_are_refused(text, message, tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        Images(str(tmp_path), 0, 0).build(draws())


@pytest.mark.parametrize("study", ["decoupling-images", "longtail-images", "prediction-head-images"])
def test_images_of_a_pixel_are_refused_by_every_study(study, tmp_path):
    write_copy(tmp_path, size=1)
    small = registry.find(study)[1]().smallest()
    sizes = {name: 0 for name in ("train", "test", "largest", "probe") if hasattr(small, name)}
    tiny = replace(small, data=str(tmp_path), batch=2, **sizes, **({"side": 0} if hasattr(small, "side") else {}))
    if hasattr(tiny, "imbalance"):
        tiny = replace(tiny, imbalance=2)
    with pytest.raises(ConfigError, match="images of 1 x 1 pixels are out of range: allowed is 8 x 8 or more"):
        next(iter(tiny.arms())).recipe.build(Streams(0, [0]))


@pytest.mark.skipif(not CIFAR10.exists(), reason="the copy of CIFAR-10 is not here")
def test_the_real_copy():
    source = Images(str(CIFAR10), train=5000, test=10).build(draws())
    assert source.train_set.pixels.shape == (5000, 3, 32, 32)
    assert len(source.class_names) == 10
    assert torch.bincount(source.train_set.labels).min() > 400
