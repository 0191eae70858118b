"""Data sets of encoded images (PNG, JPEG): in the Hub's parquet layout, from the Hub or a folder; or in a list."""

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from featscope.data.decoding import in_colour
from featscope.options import ConfigError

if TYPE_CHECKING:
    import PIL.Image
    import pyarrow as pa  # type: ignore[import-untyped]

_IMAGE_COLUMNS = ("img", "image")
_LABEL_COLUMNS = ("label", "fine_label")
_MOST_CLASSES = 100_000  # several times as many as any data set of photographs has
_PART = re.compile(r"(.*)-([0-9]{1,9})-of-([0-9]{1,9})(?:-[^-]*)?\.parquet")


class EncodedImages:
    """One split of a data set. An image is decoded when it is first asked for, and kept.

    Args:
        source: where it came from, for messages.
        labels: class of each image.
        class_names: name of each class.
        encoded: the bytes of an image (PNG, JPEG) by its index.
        side: images are scaled to this height or width, whichever is smaller, and the centre is kept; 0 for images
            as they are, which must then be of one size.

    Raises:
        ConfigError: there is no image, a label is of no class, or all are of one.
    """

    def __init__(
        self,
        source: str,
        labels: Int[Tensor, " image"],
        class_names: tuple[str, ...],
        encoded: Callable[[int], bytes],
        side: int = 0,
    ) -> None:
        if len(labels) == 0:
            raise source_error(source, "one image or more", "It has none.")
        if wrong := [label for label in (int(labels.min()), int(labels.max())) if not 0 <= label < len(class_names)]:
            cure = "Images without a label cannot be used." if wrong[0] == -1 else "Correct the labels."
            raise source_error(source, f"labels from 0 to {len(class_names) - 1}", f"One is {wrong[0]}. {cure}")
        if len(class_names) < 2:
            raise source_error(source, "images of two classes or more", "All are of one.")
        self.labels, self.class_names = labels, class_names
        self._source, self.encoded, self._side = source, encoded, side
        self._decoded: Tensor | None = None
        self._known = torch.zeros(len(labels), dtype=torch.bool)
        self._decoding = threading.Lock()

    @classmethod
    def from_table(cls, source: str, table: "pa.Table", side: int = 0) -> "EncodedImages":
        """The images of a table in the Hub's layout.

        Args:
            source: where it came from, for messages.
            table: has a column of images as the Hub writes them (a struct with ``bytes``), and one of class indices.
            side: see the class.

        Raises:
            ConfigError: a column is missing or of another type, or an image has no bytes.
        """
        import pyarrow as pa
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        images = table.column(_column(source, table, _IMAGE_COLUMNS))
        if not pa.types.is_struct(images.type) or images.type.get_field_index("bytes") < 0:
            raise source_error(
                source,
                "an image column of encoded bytes, as the Hub writes it",
                f"Its type is {images.type}.",
            )
        name = _column(source, table, _LABEL_COLUMNS)
        column = table.column(name)
        if not pa.types.is_integer(column.type):
            raise source_error(source, "a label column of whole numbers", f"Its type is {column.type}.")
        if column.null_count:
            raise source_error(
                source, "a label for each image", f"{column.null_count} are null. Leave these images out."
            )
        labels = torch.from_numpy(column.to_numpy().astype(np.int64))
        encoded = pc.struct_field(images, "bytes")  # in chunks as it is: one array has 2 GiB at most
        if encoded.null_count:
            cure = f"{encoded.null_count} are null. Leave these images out, or write their bytes into the table."
            raise source_error(source, "encoded bytes for each image", cure)
        class_names = _names(table) or _numbered(source, labels)
        return cls(source, labels, class_names, lambda i: encoded[i].as_py(), side)

    @classmethod
    def from_list(cls, source: str, file: Path, side: int = 0) -> "EncodedImages":
        """The images that ``file`` lists in lines "path label", paths relative to its folder (ImageNet-LT).

        Raises:
            ConfigError: a line of another form.
        """
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise source_error(source, f"lines 'path label' in {file.name}", f"It cannot be read: {error}.") from None
        lines = [line.rsplit(maxsplit=1) for line in text.splitlines() if line.strip()]
        if wrong := [line for line in lines if len(line) != 2 or not re.fullmatch("[0-9]{1,9}", line[1])]:
            raise source_error(source, f"lines 'path label' in {file.name}", f"One is {' '.join(wrong[0])[:100]!r}.")
        if not lines:
            raise source_error(source, f"lines 'path label' in {file.name}", "It is empty.")
        labels = torch.tensor([int(label) for _, label in lines])
        class_names = _numbered(source, labels)
        return cls(source, labels, class_names, lambda i: (file.parent / lines[i][0]).read_bytes(), side)

    def pixels(self, index: Int[Tensor, " chosen"]) -> UInt8[Tensor, "chosen channel height width"]:
        """The images at ``index``.

        Raises:
            ConfigError: an image cannot be decoded, or has another size.
        """
        with self._decoding:
            for i in index[~self._known[index]].tolist():
                image = self._decode(i)
                if self._decoded is None:
                    self._decoded = torch.empty(len(self.labels), *image.shape, dtype=torch.uint8)
                if image.shape != self._decoded.shape[1:]:
                    raise source_error(
                        self._source,
                        "images of one size",
                        f"Image {i} has shape {tuple(image.shape)}, others "
                        f"{tuple(self._decoded.shape[1:])}. Resize them.",
                    )
                self._decoded[i] = image
                self._known[i] = True
            assert self._decoded is not None, "no image was asked for"
            return self._decoded[index]

    def _decode(self, i: int) -> UInt8[Tensor, "channel height width"]:
        try:
            opened = in_colour(self.encoded(i))
        except Exception as error:  # of many kinds: of the file, of each format, and of images meant to fill memory
            reason = " ".join(str(error).split())[:200]
            raise source_error(
                self._source,
                "images that can be decoded",
                f"Image {i} cannot ({reason}). Download it again if it is damaged.",
            ) from None
        return self._fitted(opened)

    def _fitted(self, opened: "PIL.Image.Image") -> UInt8[Tensor, "channel height width"]:
        from PIL import Image, ImageOps

        if self._side and opened.size != (self._side, self._side):
            opened = ImageOps.fit(opened, (self._side, self._side), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.array(opened)).permute(2, 0, 1)


def require_whole(source: str, files: Iterable[Path]) -> None:
    """Raise `ConfigError` unless each part of a split is there once, where names count them as the Hub's do.

    Args:
        source: where the images came from, for messages.
        files: such as ``train-00000-of-00005.parquet``, those of one split in one folder or of several.
    """
    found: dict[tuple[Path, str], dict[str, list[int]]] = {}
    for file in files:
        if said := _PART.fullmatch(file.name):
            found.setdefault((file.parent, said[1]), {}).setdefault(said[3], []).append(int(said[2]))
    for (_, split), counts in found.items():
        count, parts = next(iter(counts.items()))
        if len(counts) > 1:
            cure = f"{split} is there in parts of {' and of '.join(counts)}. Remove those of one."
        elif twice := [part for part in parts if parts.count(part) > 1]:
            cure = f"{split}-{twice[0]:0{len(count)}}-of-{count} is there twice. Remove one."
        elif (missing := int(count) - len(parts)) > 0:
            lacks = next(part for part in range(int(count)) if part not in parts)
            cure = f"{missing} of {int(count)} files are missing, {split}-{lacks:0{len(count)}}-of-{count} for one. "
            cure += "Download them too, or rename those that are to do alone."
        else:
            continue
        raise source_error(source, "a folder with all parquet files of a split, each of them once", cure)


def _column(source: str, table: "pa.Table", names: tuple[str, ...]) -> str:
    for name in names:
        if name in table.column_names:
            return name
    found = ", ".join(table.column_names)
    raise source_error(source, f"a table with a column {' or '.join(names)}", f"It has {found}. Rename the column.")


def joined(source: str, tables: Mapping[str, "pa.Table"]) -> "pa.Table":
    """``tables`` by the names of their files as one, in which classes go by the names that the first has.

    Raises:
        ConfigError: others have other names, or other columns. In what order columns stand does not matter.
    """
    import pyarrow as pa

    require_same_names(source, {file: _names(table) for file, table in tables.items()})
    kinds = {file: dict(zip(table.column_names, table.schema.types, strict=True)) for file, table in tables.items()}
    first = next(iter(kinds))
    for file, types in kinds.items():
        for name in {**kinds[first], **types}:
            one, other = (said.get(name, "not there") for said in (kinds[first], types))
            if one != other:
                cure = f"{name!r} is {one} in {first}, and {other} in {file}. Write both alike."
                raise source_error(source, "parquet files that have the same columns", cure)
    return pa.concat_tables([*tables.values()], promote_options="default")


def require_trained_on(source: str, trained_on: Int[Tensor, " other"], labels: Int[Tensor, " image"]) -> None:
    """Raise `ConfigError` where an image that is tested on has a label that none has that is trained on.

    Args:
        source: where the images came from, for messages.
        trained_on: labels of the images that are.
        labels: of the images that are tested on.
    """
    known = {*trained_on.unique().tolist()}
    if wrong := sorted({*labels.unique().tolist()} - known):
        allowed = f"test images of the {len(known)} classes that are trained on"
        raise source_error(source, allowed, f"One has the label {wrong[0]}. Leave such images out.")


def require_one_size(source: str, one: Sequence[int], other: Sequence[int]) -> None:
    """Raise `ConfigError` unless images that are trained and tested on have one shape, ``[channel, height, width]``."""
    if tuple(one) != tuple(other):
        said = f"{one[-2]} x {one[-1]} and {other[-2]} x {other[-1]}"
        cure = f"They have {said} pixels. Name the side that all are brought to, or resize them."
        raise source_error(source, "images of one size to train and to test on", cure)


def require_same_names(source: str, named: Mapping[str, Sequence[str]]) -> None:
    """Raise `ConfigError` where a class has two names; what is only numbered may have any.

    Args:
        source: where the images came from, for messages.
        named: file or split -> names of its classes, in order.
    """
    known: dict[int, tuple[str, str]] = {}
    for place, names in named.items():
        for label, name in enumerate(names):
            if name == _number(label):
                continue
            first, said = known.setdefault(label, (place, name))
            if name != said:
                cure = f"Class {label} is {said!r} in {first}, and {name!r} in {place}. Number classes alike in both."
                raise source_error(source, "images whose classes have one name each", cure)


def _names(table: "pa.Table") -> tuple[str, ...]:
    """Names of classes as the Hub writes them; none where they are not there, or cannot be read."""
    from datasets import ClassLabel, Features

    try:
        features = Features.from_arrow_schema(table.schema)
    except Exception:  # of many kinds: damaged JSON, features of a later version
        return ()
    label = next((features[name] for name in _LABEL_COLUMNS if name in features), None)
    return tuple(label.names) if isinstance(label, ClassLabel) else ()


def _number(label: int) -> str:
    return f"class {label}"


def _numbered(source: str, labels: Int[Tensor, " image"]) -> tuple[str, ...]:
    """A name for every class up to the last that has an image."""
    classes = int(labels.max()) + 1 if len(labels) else 0
    if classes > _MOST_CLASSES:
        raise source_error(
            source, f"labels from 0 to {_MOST_CLASSES - 1}", f"One is {classes - 1}. Count classes from 0."
        )
    return tuple(map(_number, range(classes)))


def source_error(source: str, allowed: str, cure: str) -> ConfigError:
    """What is said of a source that is not as it should be."""
    error = ConfigError(f"data = {source[:300]!r} is out of range: allowed is {allowed}. {cure}")
    error.source = source
    return error
