"""Labelled images of several domains: photographs and sketches of the same classes, say."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from featscope.data.decoding import image_suffixes, in_colour, is_turned
from featscope.data.encoded_images import EncodedImages, joined, require_whole, source_error
from featscope.data.file_stamps import stamp
from featscope.options import ConfigError, MissingExtraError

_NOT_OF_A_DATA_SET = ("thumbs.db", "desktop.ini", "__macosx")  # what systems leave behind
_MOST_DOMAINS = 100
_SPLITS = ("train", "test", "validation")  # folders of one data set
_JPEG = b"\xff\xd8"


class DomainImages:
    """Images with a class and a domain each. They are decoded whenever they are asked for, and not kept.

    Args:
        labels: class of each image.
        domains: domain of each image.
        class_names: name of each class.
        domain_names: name of each domain.
        pixels: images by their indices.
        fingerprint: a hash of all images, in their order.

    Raises:
        ConfigError: there are fewer than two domains or classes, or fewer than five images of a domain.
    """

    def __init__(
        self,
        labels: Int[Tensor, " image"],
        domains: Int[Tensor, " image"],
        class_names: Sequence[str],
        domain_names: Sequence[str],
        pixels: Callable[[Any], Any],
        fingerprint: Callable[[], bytes],
    ) -> None:
        self.labels, self.domains = labels, domains
        self.class_names, self.domain_names = tuple(class_names), tuple(domain_names)
        self.pixels, self.fingerprint = pixels, fingerprint
        if not 2 <= len(self.domain_names) <= _MOST_DOMAINS:
            raise _UnfitError(f"images of 2 to {_MOST_DOMAINS} domains", f"There are {len(self.domain_names)}.")
        if len(self.class_names) < 2:
            raise _UnfitError("images of two classes or more", "All are of one.")
        for index, name in enumerate(self.domain_names):
            if len(chosen := torch.nonzero(domains == index)) < 5:
                raise _UnfitError("5 images of each domain or more", f"{name!r} has {len(chosen)}.")

    def __len__(self) -> int:
        return len(self.labels)


class _Stored(NamedTuple):
    """Images as they lie in files: classes, domains, their names, and the bytes of each."""

    labels: Tensor
    domains: Tensor
    class_names: Sequence[str]
    domain_names: Sequence[str]
    encoded: Callable[[int], bytes]


def open_domains(folder: str, side: int = 0) -> DomainImages:
    """Images of a folder, in one of two layouts.

    Either the Hub's: parquet files below it with columns ``image`` (encoded bytes), ``domain`` (text or a whole number)
    and ``label``, all images of a domain in one folder. Or DomainBed's: ``DOMAIN/CLASS/*.jpg`` (or whatever else
    Pillow reads), the same classes in each, and nothing else within a class but what systems hide there.

    Args:
        folder: where it is.
        side: height and width that each image is brought to, in pixels, stretched where it is no square (as in
            DomainBed); 0 leaves images as they are, and they must be of one size.

    Raises:
        ConfigError: no such folder, or files of another layout.
        MissingExtraError: parquet files need the extra 'images'.
    """
    root = Path(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise source_error(folder, "a folder of images of several domains", "There is none.")
    root = root.resolve()

    def pixels(index: Int[Tensor, " chosen"]) -> UInt8[Tensor, "chosen 3 height width"]:
        with _of(folder):
            found = [_decoded(stored.encoded(i), i, side) for i in index.tolist()]
            if len(sizes := {tuple(one.shape) for one in found}) > 1:
                raise _UnfitError("images of one size", f"There are {sorted(sizes)[:3]} among others. Resize them.")
            return torch.stack(found)

    def fingerprint() -> bytes:
        state = blake2b(f"{side}".encode() if side else b"", digest_size=32)
        for i in range(len(stored.labels)):
            data = stored.encoded(i)
            ground = b"" if data.startswith(_JPEG) else b"white"  # on which lies what is transparent, which no JPEG is
            shown = b"upright" if is_turned(data) else ground
            state.update(blake2b(data, digest_size=16, person=shown).digest())
        return state.digest()

    with _of(folder):
        stored = _stored(folder, root, stamp(root, [*root.rglob("*.parquet")] or root.glob("*/*/*")))
        return DomainImages(*stored[:4], pixels, fingerprint)


@lru_cache(maxsize=2)
def _stored(folder: str, root: Path, _state: str) -> _Stored:
    if files := sorted(root.rglob("*.parquet")):
        return _from_parquet(folder, root, files)
    return _from_folders(folder, root)


def _from_parquet(folder: str, root: Path, files: Sequence[Path]) -> _Stored:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(f"The image data {folder!r}", "images") from None
    require_whole(folder, files)
    try:
        tables = {str(file.relative_to(root)): pq.read_table(file) for file in files}
        table = joined(folder, tables)
    except (pa.ArrowException, OSError) as error:
        raise _UnfitError("readable parquet files of one layout", f"{str(error)[:200]}. Download them again.") from None
    if "domain" not in table.column_names:
        found = ", ".join(table.column_names)
        raise _UnfitError("a table with a column domain", f"It has {found}. Rename the column.")
    images = EncodedImages.from_table(folder, table)  # checks images and labels
    kind = table.column("domain").type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
        raise _UnfitError("domains that are texts or whole numbers", f"The column has {kind}. Write names in it.")
    if missing := table.column("domain").null_count:
        raise _UnfitError("a domain for each image", f"{missing} are null. Leave these images out.")
    places: dict[Any, Path] = {}
    for file, part in tables.items():
        for domain in part.column("domain").unique().to_pylist():
            place = Path(file).parent
            place = place.parent if place.name in _SPLITS else place
            if (first := places.setdefault(domain, place)) != place:
                cure = f"{domain!r} is in {first} and in {place}. Name a folder that has one of them alone."
                raise _UnfitError("a folder that holds one data set, and a domain in one place", cure)
    column = [str(value) for value in table.column("domain").to_pylist()]
    names = sorted(set(column))
    domains = torch.tensor([names.index(name) for name in column])
    return _Stored(images.labels, domains, images.class_names, names, images.encoded)


def _from_folders(folder: str, root: Path) -> _Stored:
    names = sorted(part.name for part in root.iterdir() if part.is_dir() and not _hidden(part))
    names = [name for name in names if any(map(_is_called_image, (root / name).rglob("*")))]
    files = {name: [f for f in sorted((root / name).glob("*/*")) if not _hidden(f.parent, f)] for name in names}
    if flat := [file for name in names for file in sorted((root / name).glob("*")) if _is_called_image(file)]:
        cure = f"{flat[0].relative_to(root)} lies in no class. Move it into one, or out of the folder."
        raise _UnfitError("images alone in DOMAIN/CLASS", cure)
    if strange := [file for name in names for file in files[name] if not _is_image(file)]:
        which = "a folder" if strange[0].is_dir() else "no image that can be read"
        cure = f"{strange[0].relative_to(root)} is {which}. Move its images to DOMAIN/CLASS, or it out of the folder."
        raise _UnfitError("images alone in DOMAIN/CLASS", cure)
    names = [name for name in names if files[name]]
    if not names:
        raise _UnfitError("a folder with parquet files, or with DOMAIN/CLASS/*.jpg", f"{folder[:200]!r} has neither.")
    of_each = {name: {file.parent.name for file in files[name]} for name in names}
    classes = sorted(set.union(*of_each.values()))
    for name in names:
        if lacking := sorted({*classes} - of_each[name]):
            cure = f"{name!r} has none of {', '.join(lacking[:5])}. Give a class one name in all domains."
            raise _UnfitError("the same classes in each domain", cure)
    every = [(d, file) for d, name in enumerate(names) for file in files[name]]
    labels = torch.tensor([classes.index(file.parent.name) for _, file in every])
    domains = torch.tensor([domain for domain, _ in every])
    return _Stored(labels, domains, classes, names, lambda i: every[i][1].read_bytes())


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in image_suffixes() and file.is_file()


def _is_called_image(file: Path) -> bool:
    """Whether its name says so, though it may be of a kind that is not read here."""
    return _is_image(file) or (guess_type(file.name)[0] or "").startswith("image/")


def _hidden(*parts: Path) -> bool:
    return any(part.name.startswith(".") or part.name.lower() in _NOT_OF_A_DATA_SET for part in parts)


def of_pixels(
    pixels: UInt8[Tensor, "image 3 height width"],
    labels: Int[Tensor, " image"],
    domains: Int[Tensor, " image"],
    class_names: Sequence[str],
    domain_names: Sequence[str],
) -> DomainImages:
    """Images that are in memory."""

    def fingerprint() -> bytes:
        return blake2b(str(tuple(pixels.shape)).encode() + pixels.numpy().tobytes(), digest_size=32).digest()

    return DomainImages(labels, domains, class_names, domain_names, lambda index: pixels[index], fingerprint)


def _decoded(data: bytes, i: int, side: int) -> UInt8[Tensor, "3 height width"]:
    from PIL import Image

    try:
        opened = in_colour(data)
    except Exception as error:  # of many kinds: of the file, of each format, and of images meant to fill memory
        raise _UnfitError("images that can be decoded", f"Image {i} cannot ({str(error)[:200]}).") from None
    if side and opened.size != (side, side):
        opened = opened.resize((side, side), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(opened)).permute(2, 0, 1)


class _UnfitError(ConfigError):
    """Images that are no data set of domains; which folder they are of `_of` adds."""

    def __init__(self, allowed: str, cure: str) -> None:
        super().__init__(f"data is out of range: allowed is {allowed}. {cure}")
        self.allowed, self.cure = allowed, cure


@contextmanager
def _of(folder: str) -> Iterator[None]:
    """Say of errors within which folder they are of."""
    try:
        yield
    except _UnfitError as error:
        raise source_error(folder, error.allowed, error.cure) from None
