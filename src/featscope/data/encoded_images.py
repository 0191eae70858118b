"""Data sets of encoded images (PNG, JPEG) in the Hub's parquet layout, from the Hub or a folder."""

import io
import threading
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

_HUB_NAMES = {"cifar10": "uoft-cs/cifar10", "cifar100": "uoft-cs/cifar100"}
_IMAGE_COLUMNS = ("img", "image")
_LABEL_COLUMNS = ("label", "fine_label")
_opening = threading.Lock()


class EncodedImages:
    """One split of a data set. An image is decoded when it is first asked for, and kept.

    Args:
        source: where it came from, for messages.
        table: has a column of images as the Hub writes them (a struct with ``bytes``), and one of class
            indices.

    Attributes:
        labels: class of each image.
        class_names: from the Hub's metadata in the table; "class 0" and so on where a copy has lost them.

    Raises:
        ConfigError: a column is missing or of another type.
    """

    labels: Int[Tensor, " image"]
    class_names: tuple[str, ...]

    def __init__(self, source: str, table: "pa.Table") -> None:
        import pyarrow as pa

        self._source = source
        images = self._column(table, _IMAGE_COLUMNS)
        if not pa.types.is_struct(images.type) or images.type.get_field_index("bytes") < 0:
            raise _error(
                source,
                "an image column of encoded bytes, as the Hub writes it",
                f"Its type is {images.type}.",
            )
        self._encoded = images.combine_chunks().field("bytes")
        labels = self._column(table, _LABEL_COLUMNS)
        if not pa.types.is_integer(labels.type):
            raise _error(source, "a label column of whole numbers", f"Its type is {labels.type}.")
        self.labels = torch.from_numpy(labels.to_numpy().astype(np.int64))
        self.class_names = _class_names(table, int(self.labels.max()) + 1)
        self._decoded: Tensor | None = None
        self._known = torch.zeros(len(self.labels), dtype=torch.bool)
        self._decoding = threading.Lock()

    def _column(self, table: "pa.Table", names: tuple[str, ...]) -> "pa.ChunkedArray":
        for name in names:
            if name in table.column_names:
                return table.column(name)
        found = ", ".join(table.column_names)
        raise _error(self._source, f"a table with a column {' or '.join(names)}", f"It has {found}. Rename the column.")

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
        from PIL import Image

        try:
            image = np.array(Image.open(io.BytesIO(self._encoded[i].as_py())).convert("RGB"))
        except (OSError, TypeError) as error:
            raise _error(
                self._source, "images that can be decoded", f"Image {i} cannot ({error}). Download it again."
            ) from None
        return torch.from_numpy(image).permute(2, 0, 1)


def open_split(source: str, split: str) -> EncodedImages:
    """The split "train" or "test" of a folder (``source`` exists) or of a data set on the Hub.

    One object is shared by all who ask, so that workers decode an image once.

    Raises:
        ConfigError: no such folder, files of another layout, or a Hub that cannot be reached.
        MissingExtraError: the extra 'images' is not installed.
    """
    with _opening:
        return _open(source, split)


@lru_cache(maxsize=4)
def _open(source: str, split: str) -> EncodedImages:
    try:
        import datasets  # noqa: F401
        import PIL.Image  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"The image data {source!r}", "images") from None
    folder = Path(source).expanduser()
    if folder.exists():
        return EncodedImages(source, _local_table(folder, split))
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        allowed = "an existing folder, a data set of the Hub such as 'cifar10', or 'shapes'"
        raise _error(source, allowed, "There is no such folder.")
    return EncodedImages(source, _hub_table(source, split))


def _local_table(folder: Path, split: str) -> "pa.Table":
    # Read by pyarrow, not by `datasets`, which would first copy everything into a cache in the home folder.
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    files = sorted(folder.rglob(f"{split}-*.parquet")) if folder.is_dir() else []
    if not files:
        found = sorted(p.name for p in folder.iterdir())[:5] if folder.is_dir() else [folder.name]
        raise _error(
            str(folder),
            f"a folder that holds {split}-*.parquet, as the Hub lays them out",
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


def _class_names(table: "pa.Table", classes: int) -> tuple[str, ...]:
    from datasets import ClassLabel, Features

    for feature in Features.from_arrow_schema(table.schema).values():
        if isinstance(feature, ClassLabel):
            return tuple(feature.names)
    return tuple(f"class {index}" for index in range(classes))


def _error(source: str, allowed: str, cure: str) -> ConfigError:
    return ConfigError(f"Images.source = {source!r} is out of range: allowed is {allowed}. {cure}")
