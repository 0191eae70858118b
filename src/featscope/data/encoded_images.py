"""Data sets of encoded images (PNG, JPEG): in the Hub's parquet layout, from the Hub or a folder; or in a list."""

import io
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from featscope.options import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_HUB_NAMES = {"cifar10": "uoft-cs/cifar10", "cifar100": "uoft-cs/cifar100", "stl10": "tanganke/stl10"}
_IMAGE_COLUMNS = ("img", "image")
_LABEL_COLUMNS = ("label", "fine_label")
_opening = threading.Lock()


class EncodedImages:
    """One split of a data set. An image is decoded when it is first asked for, and kept.

    Args:
        source: where it came from, for messages.
        labels: class of each image.
        class_names: name of each class.
        encoded: the bytes of an image (PNG, JPEG) by its index.
        side: images are scaled to this height or width, whichever is smaller, and the centre is kept; 0 for images
            as they are, which must then be of one size.
    """

    def __init__(
        self,
        source: str,
        labels: Int[Tensor, " image"],
        class_names: tuple[str, ...],
        encoded: Callable[[int], bytes],
        side: int = 0,
    ) -> None:
        self.labels, self.class_names = labels, class_names
        self._source, self._encoded, self._side = source, encoded, side
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
            ConfigError: a column is missing or of another type.
        """
        import pyarrow as pa

        images = table.column(_column(source, table, _IMAGE_COLUMNS))
        if not pa.types.is_struct(images.type) or images.type.get_field_index("bytes") < 0:
            raise _error(
                source,
                "an image column of encoded bytes, as the Hub writes it",
                f"Its type is {images.type}.",
            )
        name = _column(source, table, _LABEL_COLUMNS)
        column = table.column(name)
        if not pa.types.is_integer(column.type):
            raise _error(source, "a label column of whole numbers", f"Its type is {column.type}.")
        labels = torch.from_numpy(column.to_numpy().astype(np.int64))
        encoded = images.combine_chunks().field("bytes")
        class_names = _class_names(table, name, int(labels.max()) + 1)
        return cls(source, labels, class_names, lambda i: encoded[i].as_py(), side)

    @classmethod
    def from_list(cls, source: str, file: Path, side: int = 0) -> "EncodedImages":
        """The images that ``file`` lists in lines "path label", paths relative to its folder (ImageNet-LT).

        Raises:
            ConfigError: a line of another form.
        """
        lines = [line.rsplit(maxsplit=1) for line in file.read_text().splitlines() if line.strip()]
        if wrong := [line for line in lines if len(line) != 2 or not line[1].isdecimal()]:
            raise _error(source, f"lines 'path label' in {file.name}", f"One is {' '.join(wrong[0])!r}.")
        if not lines:
            raise _error(source, f"lines 'path label' in {file.name}", "It is empty.")
        labels = torch.tensor([int(label) for _, label in lines])
        class_names = _numbered(int(labels.max()) + 1)
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
                    raise _error(
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
        from PIL import Image, ImageOps

        try:
            opened = Image.open(io.BytesIO(self._encoded(i))).convert("RGB")
        except (OSError, TypeError) as error:
            raise _error(
                self._source, "images that can be decoded", f"Image {i} cannot ({error}). Download it again."
            ) from None
        if self._side and opened.size != (self._side, self._side):
            opened = ImageOps.fit(opened, (self._side, self._side), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.array(opened)).permute(2, 0, 1)


def open_split(source: str, split: str, side: int = 0) -> EncodedImages:
    """The split "train" or "test", say, of a folder (``source`` exists) or of a data set on the Hub.

    A folder holds the Hub's parquet files of the split, or images and a list of the split's, such as
    ``ImageNet_LT_train.txt``, with lines "path label". Images are brought to ``side`` pixels if it is not 0.

    One object is shared by all who ask, so that workers decode an image once.

    Raises:
        ConfigError: no such folder, files of another layout, or a Hub that cannot be reached.
        MissingExtraError: the extra 'images' is not installed.
    """
    with _opening:
        return _open(source, split, side)


@lru_cache(maxsize=4)
def _open(source: str, split: str, side: int) -> EncodedImages:
    try:
        import datasets  # noqa: F401
        import PIL.Image  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"The image data {source!r}", "images") from None
    folder = Path(source).expanduser()
    if lists := sorted(folder.glob(f"*{split}.txt")):
        return EncodedImages.from_list(source, lists[0], side)
    if folder.exists():
        return EncodedImages.from_table(source, _local_table(folder, split), side)
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        allowed = "an existing folder, a data set of the Hub such as 'cifar10', or 'shapes'"
        raise _error(source, allowed, "There is no such folder.")
    return EncodedImages.from_table(source, _hub_table(source, split), side)


def _local_table(folder: Path, split: str) -> "pa.Table":
    # Read by pyarrow, not by `datasets`, which would first copy everything into a cache in the home folder.
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    files = sorted(folder.rglob(f"{split}-*.parquet")) if folder.is_dir() else []
    if not files:
        found = sorted(p.name for p in folder.iterdir())[:5] if folder.is_dir() else [folder.name]
        raise _error(
            str(folder),
            f"a folder that holds {split}-*.parquet, as the Hub lays them out, or a list *{split}.txt",
            f"Found {', '.join(found) or 'nothing'}. Download the data set's parquet files into it.",
        )
    try:
        return pa.concat_tables([pq.read_table(file) for file in files])
    except (pa.ArrowInvalid, OSError) as error:
        raise _error(str(folder), "readable parquet files", f"{error}. Download them again.") from None


def _hub_table(source: str, split: str) -> "pa.Table":
    import datasets

    try:
        return datasets.load_dataset(_HUB_NAMES.get(source, source), split=split).data.table
    except Exception as error:  # whatever the network, the Hub and its client can raise: the cure is the same
        reason = (str(error).splitlines() or [""])[0][:200]
        raise _error(
            source,
            "an existing folder, 'shapes', or a data set that the Hub can give",
            f"There is no such folder, and the Hub did not give {split!r} ({type(error).__name__}: "
            f"{reason}). Take --data FOLDER for a local copy of its parquet files, or --data shapes for "
            "procedural images.",
        ) from error


def _column(source: str, table: "pa.Table", names: tuple[str, ...]) -> str:
    for name in names:
        if name in table.column_names:
            return name
    found = ", ".join(table.column_names)
    raise _error(source, f"a table with a column {' or '.join(names)}", f"It has {found}. Rename the column.")


def _class_names(table: "pa.Table", column: str, classes: int) -> tuple[str, ...]:
    from datasets import ClassLabel, Features

    feature = Features.from_arrow_schema(table.schema)[column]
    return tuple(feature.names) if isinstance(feature, ClassLabel) else _numbered(classes)


def _numbered(classes: int) -> tuple[str, ...]:
    return tuple(f"class {index}" for index in range(classes))


def _error(source: str, allowed: str, cure: str) -> ConfigError:
    return ConfigError(f"Images.source = {source!r} is out of range: allowed is {allowed}. {cure}")
