"""Images of several domains: the Hub's layout, DomainBed's folders, and small sets that need no files."""

import gzip
import io
import shutil
from hashlib import blake2b

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import rotate

from featscope.data.digit_domains import ANGLES, COLOURED, ROTATED, digit_domains
from featscope.data.domain_images import open_domains
from featscope.data.made_up_domains import made_up_domains
from featscope.data.shapes import draw_shapes
from featscope.data.splits import open_split
from featscope.encoders import Pictures
from featscope.options import ConfigError
from featscope.streams import Streams

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
WORDS = ("sketch", "photo")


def png(value: int, side: int = 4) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), value, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


def table(count: int = 12, **columns):
    rows = {
        "image": [{"bytes": png(10 * i), "path": None} for i in range(count)],
        "domain": [WORDS[i % 2] for i in range(count)],
        "label": [i % 3 for i in range(count)],
    } | columns
    return pa.table({name: values for name, values in rows.items() if values is not None})


def test_the_layout_of_the_hub(tmp_path):
    pq.write_table(table(), tmp_path / "train-00000-of-00001.parquet")
    images = open_domains(str(tmp_path))
    assert isinstance(images, Pictures)
    assert (len(images), images.domain_names, len(images.class_names)) == (12, ("photo", "sketch"), 3)
    assert images.domains.tolist() == [1, 0] * 6
    assert images.pixels(torch.tensor([3, 0]))[:, 0, 0, 0].tolist() == [30, 0]


def test_the_layout_of_domainbed(tmp_path):
    for domain in WORDS:
        for label in ("cat", "dog"):
            (tmp_path / domain / label).mkdir(parents=True)
            for i in range(3):
                (tmp_path / domain / label / f"{i}.png").write_bytes(png(i + (100 if domain == "photo" else 0)))
    images = open_domains(str(tmp_path))
    assert (len(images), images.domain_names, images.class_names) == (12, ("photo", "sketch"), ("cat", "dog"))
    first = images.pixels(torch.arange(12))[:, 0, 0, 0]
    assert torch.equal(first >= 100, images.domains == 0)
    assert images.labels[images.domains == 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert (tmp_path / "photo" / "cat" / "0.png").exists()


def folders(root, **kinds: str):
    """Three images in each class of each domain, whose name is that of a kind of image."""
    for domain, kind in kinds.items():
        for label in ("cat", "dog"):
            (root / domain / label).mkdir(parents=True)
            for i in range(3):
                Image.new("RGB", (4, 4), (10 * i, 0, 0)).save(root / domain / label / f"{i}.{kind}")


def test_folders_may_hold_any_kind_of_image_that_is_read(tmp_path):
    folders(tmp_path, photo="webp", sketch="bmp", drawing="TIF")
    for left in ("photo/cat/Thumbs.db", "photo/cat/.DS_Store", "sketch/.cache/dog", "__MACOSX/photo/cat/._0.webp"):
        (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / left).touch()
    (tmp_path / "notes" / "old").mkdir(parents=True)
    (tmp_path / "notes" / "old" / "read.me").touch()
    images = open_domains(str(tmp_path))
    assert (len(images), images.domain_names) == (18, ("drawing", "photo", "sketch"))
    assert images.pixels(torch.arange(18)).shape == (18, 3, 4, 4)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("photo/cat/4.heic", "photo/cat/4.heic is no image that can be read"),
        ("photo/cat/4.txt", "photo/cat/4.txt is no image that can be read"),
        ("photo/cat/more/4.png", "photo/cat/more is a folder"),
        ("poster/cat/4.heic", "poster/cat/4.heic is no image that can be read"),
        ("poster/cat/more/4.png", "poster/cat/more is a folder"),
    ],
)
def test_what_would_be_left_out_of_a_class_is_named(tmp_path, file, message):
    folders(tmp_path, photo="png", sketch="png")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(png(7))
    with pytest.raises(ConfigError, match=rf"images alone in DOMAIN/CLASS\. {message}\. Move its images"):
        open_domains(str(tmp_path))


def test_a_domain_whose_images_lie_in_no_class_is_not_left_out(tmp_path):
    folders(tmp_path, photo="png", art="png")
    (tmp_path / "sketch").mkdir()
    (tmp_path / "sketch" / "0.png").write_bytes(png(7))
    with pytest.raises(ConfigError, match=r"images alone in DOMAIN/CLASS\. sketch/0\.png lies in no class"):
        open_domains(str(tmp_path))


def test_a_folder_that_has_changed_is_read_again(tmp_path, monkeypatch):
    """So is another folder of the same name, and what was opened before goes on being read from where it was."""
    for place in ("one", "other"):
        folders(tmp_path / place / "data", photo="png", sketch="png")
    monkeypatch.chdir(tmp_path / "one")
    first = open_domains("data")
    (tmp_path / "one" / "data" / "photo" / "cat" / "3.png").write_bytes(png(7))
    assert (len(first), len(open_domains("data"))) == (12, 13)
    monkeypatch.chdir(tmp_path / "other")
    assert len(open_domains("data")) == 12
    (tmp_path / "other" / "data" / "photo" / "cat" / "0.png").write_bytes(b"")
    assert first.pixels(torch.tensor([0])).shape == (1, 3, 4, 4)


def test_digits_that_have_changed_are_read_again(tmp_path):
    write_idx(tmp_path, 10)
    first = digit_domains(ROTATED, str(tmp_path))
    assert digit_domains(ROTATED, str(tmp_path)) is first
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:8] + bytes(reversed(labels.read_bytes()[8:])))
    assert not torch.equal(digit_domains(ROTATED, str(tmp_path)).labels, first.labels)


def test_a_class_has_one_name_in_all_domains(tmp_path):
    for domain, labels in (("photo", ("cat", "dog")), ("sketch", ("cat", "Dog"))):
        for label in labels:
            (tmp_path / domain / label).mkdir(parents=True)
            for i in range(3):
                (tmp_path / domain / label / f"{i}.png").write_bytes(png(i))
    with pytest.raises(ConfigError, match="'photo' has none of Dog"):
        open_domains(str(tmp_path))


def test_an_image_without_a_domain_is_refused(tmp_path):
    pq.write_table(table(domain=[None] * 6 + ["photo"] * 6), tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(ConfigError, match="6 are null"):
        open_domains(str(tmp_path))


@pytest.mark.parametrize("of", [[1.5], [[1]]], ids=["float", "list"])
def test_domains_that_are_no_names_are_refused(tmp_path, of):
    pq.write_table(table(domain=of * 6 + of * 6), tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(ConfigError, match=rf"data = '{tmp_path}' is out .* domains that are texts or whole numbers"):
        open_domains(str(tmp_path))


def test_an_image_without_bytes_is_refused_before_its_hash_is_taken(tmp_path):
    some = [{"bytes": png(7) if i else None, "path": f"{i}.png"} for i in range(12)]
    pq.write_table(table(image=some), tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(ConfigError, match=r"encoded bytes for each image\. 1 are null"):
        open_domains(str(tmp_path))


def test_images_of_several_sizes_are_brought_to_one(tmp_path):
    mixed = [{"bytes": png(10 * i, side=4 + i % 3), "path": None} for i in range(12)]
    pq.write_table(table(image=mixed), tmp_path / "train.parquet")
    with pytest.raises(ConfigError, match="images of one size"):
        open_domains(str(tmp_path)).pixels(torch.arange(12))
    found = open_domains(str(tmp_path), 6)
    pixels = found.pixels(torch.arange(12))
    assert pixels.shape == (12, 3, 6, 6)
    assert pixels[:, 0, 3, 3].tolist() == [10 * i for i in range(12)]
    assert found.fingerprint() != open_domains(str(tmp_path), 8).fingerprint()


def test_images_that_are_no_square_are_stretched_and_what_is_fine_is_averaged(tmp_path):
    wide = np.zeros((8, 16, 3), np.uint8)
    wide[:, :4] = 240
    wide[:, 8:] = 200 * (np.indices((8, 8)).sum(0) % 2)[..., None]
    file = io.BytesIO()
    Image.fromarray(wide).save(file, "PNG")
    pq.write_table(table(image=[{"bytes": file.getvalue(), "path": None}] * 12), tmp_path / "a.parquet")
    (pixels,) = open_domains(str(tmp_path), 4).pixels(torch.tensor([0])).float()
    assert (pixels[:, :, 0] > 200).all()
    assert (pixels[:, :, 3] - 100).abs().max() < 25


def test_the_fingerprint_is_that_of_the_bytes(tmp_path):
    for name in ("one", "same", "other"):
        (tmp_path / name).mkdir()
    pq.write_table(table(), tmp_path / "one" / "a.parquet")
    pq.write_table(table(), tmp_path / "same" / "b.parquet")
    pq.write_table(table(image=[{"bytes": png(7), "path": None}] * 12), tmp_path / "other" / "a.parquet")
    one, same, other = (open_domains(str(tmp_path / name)).fingerprint() for name in ("one", "same", "other"))
    assert one == same != other


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"domain": None}, "a column domain.*Rename"),
        ({"domain": ["one"] * 12}, "2 to 100 domains.*There are 1"),
        ({"domain": ["one"] * 10 + ["two"] * 2}, "5 images of each domain.*'two' has 2"),
        ({"label": None}, "label or fine_label"),
    ],
)
def test_other_tables_are_refused(tmp_path, columns, message):
    pq.write_table(table(**columns), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=message):
        open_domains(str(tmp_path))


def test_what_is_no_image_is_named(tmp_path):
    pq.write_table(table(image=[{"bytes": b"no", "path": None}] * 12), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r"Image 4 cannot"):
        open_domains(str(tmp_path)).pixels(torch.tensor([4]))


def test_images_of_more_than_8_bits_a_channel_are_refused(tmp_path):
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(file, "PNG")
    pq.write_table(table(image=[{"bytes": file.getvalue(), "path": None}] * 12), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r"Image 4 cannot \(mode I.*: more than 8 bits a channel, .* convert it"):
        open_domains(str(tmp_path)).pixels(torch.tensor([4]))


@pytest.mark.parametrize(("mode", "ink"), [("RGBA", (0, 0, 0, 255)), ("LA", (0, 255)), ("P", 0)])
def test_what_is_transparent_lies_on_white(tmp_path, mode, ink):
    """Black strokes on a black ground that is not seen."""
    drawn = Image.new(mode, (4, 4), 1 if mode == "P" else tuple(0 for _ in ink))
    if mode == "P":
        drawn.putpalette([0] * 6)
    drawn.putpixel((1, 2), ink)
    file = io.BytesIO()
    drawn.save(file, "PNG", **({"transparency": 1} if mode == "P" else {}))
    pq.write_table(table(image=[{"bytes": file.getvalue(), "path": None}] * 12), tmp_path / "a.parquet")
    images = open_domains(str(tmp_path))
    (pixels,) = images.pixels(torch.tensor([0]))
    assert (pixels == 0).nonzero()[:, 1:].tolist() == [[2, 1]] * 3
    assert int((pixels == 255).sum()) == 45


def test_features_of_what_lay_on_black_are_not_taken_again(tmp_path):
    """Of JPEG images, which have no transparency, they are."""
    for kind in ("PNG", "JPEG"):
        file = io.BytesIO()
        Image.new("RGB", (4, 4)).save(file, kind)
        (tmp_path / kind).mkdir()
        rows = [{"bytes": file.getvalue(), "path": None}] * 12
        pq.write_table(table(image=rows), tmp_path / kind / "a.parquet")
        before = blake2b(blake2b(file.getvalue(), digest_size=16).digest() * 12, digest_size=32).digest()
        assert (open_domains(str(tmp_path / kind)).fingerprint() == before) == (kind == "JPEG")


def test_features_of_images_that_are_turned_upright_are_not_taken_again(tmp_path):
    told = Image.Exif()
    for kind, ground in (("JPEG", b""), ("PNG", b"white")):
        for way in (1, 6):
            told[0x0112] = way
            file = io.BytesIO()
            Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(file, kind, exif=told)
            folder = tmp_path / kind / str(way)
            folder.mkdir(parents=True)
            pq.write_table(table(image=[{"bytes": file.getvalue(), "path": None}] * 12), folder / "a.parquet")
            images = open_domains(str(folder))
            each = blake2b(file.getvalue(), digest_size=16, person=ground).digest()
            assert (images.fingerprint() == blake2b(each * 12, digest_size=32).digest()) == (way == 1)
            (pixels,) = images.pixels(torch.tensor([0]))
            stored = torch.from_numpy(np.array(Image.open(file).convert("RGB"))).permute(2, 0, 1)
            assert torch.equal(pixels, stored if way == 1 else stored.rot90(-1, (1, 2)))


def test_a_split_in_two_shardings_is_refused(tmp_path):
    for name in ("train-00000-of-00001-aaa", "train-00000-of-00002", "train-00001-of-00002"):
        pq.write_table(table(), tmp_path / f"{name}.parquet")
    with pytest.raises(ConfigError, match="train is there in parts of 00001 and of 00002"):
        open_domains(str(tmp_path))


def test_domains_may_have_folders_of_their_own_and_no_copies(tmp_path):
    """Nor are two splits of one data set copies."""
    folders = {"each/sketch": range(0, 12, 2), "each/photo": range(1, 12, 2), "twice/a": range(12)}
    for place, rows in (folders | {"split/train": range(8), "split/test": range(8, 12)}).items():
        (tmp_path / place).mkdir(parents=True)
        pq.write_table(table().take(list(rows)), tmp_path / place / "train-00000-of-00001.parquet")
    assert len(open_domains(str(tmp_path / "each"))) == 12
    assert len(open_domains(str(tmp_path / "split"))) == 12
    shutil.copytree(tmp_path / "twice" / "a", tmp_path / "twice" / "b")
    with pytest.raises(ConfigError, match=r"holds one data set, .* '(sketch|photo)' is in a and in b\. Name a folder"):
        open_domains(str(tmp_path / "twice"))


def test_classes_have_one_name_in_all_files(tmp_path):
    datasets = pytest.importorskip("datasets")
    for number, names in enumerate((["cat", "dog", "emu"], ["dog", "cat", "emu"])):
        kinds = {
            "image": datasets.Image(),
            "domain": datasets.Value("string"),
            "label": datasets.ClassLabel(names=names),
        }
        rows = datasets.Dataset.from_dict(table().to_pydict(), features=datasets.Features(kinds))
        rows.to_parquet(tmp_path / f"train-0000{number}-of-00002.parquet")
    with pytest.raises(
        ConfigError, match=r"Class 0 is 'cat' in train-00000-of-00002\.parquet, and 'dog' in train-00001"
    ):
        open_domains(str(tmp_path))


def test_a_split_of_which_files_are_missing_is_refused(tmp_path):
    pq.write_table(table(), tmp_path / "test-00000-of-00001.parquet")
    pq.write_table(table(), tmp_path / "train-00001-of-00002.parquet")
    with pytest.raises(ConfigError, match="1 of 2 files are missing, train-00000-of-00002 for one"):
        open_domains(str(tmp_path))
    pq.write_table(table(), tmp_path / "train-00000-of-00002.parquet")
    assert len(open_domains(str(tmp_path))) == 36


def test_folders_that_hold_nothing_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="has neither"):
        open_domains(str(tmp_path))
    with pytest.raises(ConfigError, match="is none"):
        open_domains(str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="There is none"):
        open_domains(300 * "x")


def test_made_up_domains_differ_in_style():
    images = made_up_domains()
    pixels = images.pixels(torch.arange(len(images))).float()
    grey = pixels[images.domains == images.domain_names.index("grey")]
    assert (grey[:, 0] == grey[:, 1]).all()
    drawn, _, _ = draw_shapes(120, Streams(0, [0]).at("made-up domain negative"))
    assert torch.equal(pixels[images.domains == images.domain_names.index("negative")], 255 - drawn.float())
    means = [float(pixels[images.domains == domain].mean()) for domain in range(4)]
    assert means[3] < min(means[:3]) / 2


@pytest.mark.parametrize("name", COLOURED)
def test_colour_agrees_as_often_as_said(name):
    images = digit_domains(name)
    pixels = images.pixels(torch.arange(len(images)))
    red = (pixels[:, 0] > 0).flatten(1).any(1)
    assert not pixels[red][:, 1:].any()
    for domain, share in enumerate(COLOURED[name]):
        here = images.domains == domain
        agrees = (red == images.labels.bool())[here].double().mean()
        assert float(agrees) == pytest.approx(share, abs=0.06)  # about three deviations of 600 coins


def test_labels_agree_with_each_digit_three_times_of_four():
    from sklearn.datasets import load_digits

    known = load_digits()
    of_image = {
        np.round(image * 255 / 16).astype(np.uint8).tobytes(): digit
        for image, digit in zip(known.images, known.target, strict=True)
    }
    images = digit_domains("coloured-digits")
    grey = images.pixels(torch.arange(len(images))).sum(1, dtype=torch.uint8)
    digits = torch.tensor([of_image[one.numpy().tobytes()] for one in grey])
    for digit in range(10):
        agrees = images.labels[digits == digit] == (digit >= 5)
        assert float(agrees.double().mean()) == pytest.approx(0.75, abs=0.13)  # four deviations of 175 coins


@pytest.mark.parametrize("name", COLOURED)
def test_every_digit_is_in_one_domain_and_there_once(name):
    from sklearn.datasets import load_digits

    known = sorted(np.round(image * 255 / 16).astype(np.uint8).tobytes() for image in load_digits().images)
    images = digit_domains(name)
    grey = images.pixels(torch.arange(len(images))).sum(1, dtype=torch.uint8)
    assert sorted(one.numpy().tobytes() for one in grey) == known
    assert images.domains.bincount().tolist() == [599] * 3


def test_digits_at_angle_0_are_as_they_were():
    from sklearn.datasets import load_digits

    known = {np.round(image * 255 / 16).astype(np.uint8).tobytes() for image in load_digits().images}
    images = digit_domains(ROTATED)
    upright = images.pixels(torch.nonzero(images.domains == 0)[:, 0])
    assert len(upright) == 300
    assert all(one[0].numpy().tobytes() in known for one in upright)


def test_rotated_digits_turn_by_their_domains_angle():
    """The mean of each digit is that of the unrotated one turned counter-clockwise by SciPy, not clockwise."""
    images = digit_domains(ROTATED)
    assert images.domain_names == tuple(f"{angle}°" for angle in ANGLES)
    pixels = images.pixels(torch.arange(len(images))).double()[:, 0].numpy()
    for domain, angle in enumerate(ANGLES[1:], start=1):
        apart = {1: 0.0, -1: 0.0}
        for digit in range(10):
            turned, upright = (
                pixels[((images.domains == one) & (images.labels == digit)).numpy()].mean(0) for one in (domain, 0)
            )
            for sense in apart:
                apart[sense] += np.square(turned - rotate(upright, sense * angle, reshape=False, order=1)).mean()
        assert apart[1] < 0.8 * apart[-1]


def test_domains_hold_different_digits_of_all_classes():
    images = digit_domains(ROTATED)
    for domain in range(len(ANGLES)):
        assert len(images.labels[images.domains == domain].unique()) == 10


def write_idx(folder, classes):
    """MNIST's files of 200 images of 28 x 28 pixels."""
    draws = np.random.default_rng(0)
    heads = (
        bytes([0, 0, 8, 3]) + np.array([200, 28, 28], ">u4").tobytes(),
        bytes([0, 0, 8, 1]) + np.array([200], ">u4").tobytes(),
    )
    pixels = draws.integers(0, 256, (200, 28, 28), np.uint8)
    (folder / "t10k-images-idx3-ubyte").write_bytes(heads[0] + pixels.tobytes())
    (folder / "t10k-labels-idx1-ubyte").write_bytes(heads[1] + (np.arange(200) % classes).astype(np.uint8).tobytes())


def test_digits_of_mnists_layout_are_taken(tmp_path):
    write_idx(tmp_path, 10)
    images = digit_domains("coloured-digits", str(tmp_path))
    assert len(images) == 200
    assert images.pixels(torch.arange(3)).shape == (3, 3, 28, 28)


@pytest.mark.parametrize("sizes", [(2**31, 2**31, 4), (200, 0, 28)])
def test_sizes_that_no_images_have_are_refused(tmp_path, sizes):
    """The product of the first is 0 in 64 bits."""
    write_idx(tmp_path, 10)
    head = bytes([0, 0, 8, 3]) + np.array(sizes, ">u4").tobytes()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(head)
    with pytest.raises(ConfigError, match="idx files of 3 axes of bytes"):
        open_split(str(tmp_path), "train")


def test_digits_are_brought_to_a_side(tmp_path):
    write_idx(tmp_path, 10)
    for source, side in (("digits", 16), (str(tmp_path), 14)):
        assert open_split(source, "train").pixels(torch.tensor([3])).shape[-1] != side
        assert open_split(source, "train", side).pixels(torch.tensor([3])).shape == (1, 3, side, side)


def test_compressed_images_with_other_bytes_are_refused(tmp_path):
    write_idx(tmp_path, 10)
    whole = tmp_path / "t10k-images-idx3-ubyte"
    data = gzip.compress(whole.read_bytes())
    whole.unlink()
    for end in (data[:10] + b"\xff" * 20 + data[30:], data[:-20], data[:-8] + bytes(8)):
        whole.with_name(f"{whole.name}.gz").write_bytes(end)
        with pytest.raises(ConfigError, match=r"readable idx files\. t10k-images-idx3-ubyte\.gz: .* Download it again"):
            digit_domains("coloured-digits", str(tmp_path))


def test_images_of_other_classes_are_no_digits(tmp_path):
    write_idx(tmp_path, 3)
    with pytest.raises(ConfigError, match=r"digits = .* is out of range: .* There are 200 images of 3 classes"):
        digit_domains(ROTATED, str(tmp_path))
