"""Splits of images from wherever they are: bundled, in a folder, on the Hub."""

import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from featscope.data.decoded_images import BUNDLED, bundled_digits, has_idx, of_idx
from featscope.data.encoded_images import EncodedImages, joined, require_whole, source_error
from featscope.data.file_stamps import stamp
from featscope.hub import asking_hub
from featscope.options import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_HUB_NAMES = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "stl10": "tanganke/stl10",
    "svhn": "ufldl-stanford/svhn",
    "tiny-imagenet": "zh-plus/tiny-imagenet",
}
_ONE_OF = {"ufldl-stanford/svhn": "cropped_digits"}
"""The data set that is meant where a repository of the Hub has several."""
_INSTEAD = {"test": ("validation", "valid", "val")}
"""Names of a split by which some sets go; others have a split "test" without labels, which is refused."""
_opening = threading.Lock()


def open_split(source: str, split: str, side: int = 0, exactly: bool = False) -> EncodedImages:
    """The split "train" or "test", say, of a folder (``source`` exists) or of a data set on the Hub.

    A folder holds the Hub's parquet files of the split, MNIST's idx files, or images and a list of the split's, such as
    ``ImageNet_LT_train.txt``, with lines "path label". "digits" are those that come with scikit-learn. Images are
    brought to ``side`` pixels if it is not 0. A set without a split "test" is tested on "validation", "valid" or "val",
    unless ``exactly`` this split is asked for.

    One object is shared by all who ask, so that workers decode an image once, until files of the split change (of a
    list, the list alone).

    Raises:
        ConfigError: no such folder, files of another layout, or a Hub that cannot be reached.
        MissingExtraError: the extra 'images' is not installed.
    """
    with _opening:
        return _open(source, split, side, exactly, _state(source, split))


@lru_cache(maxsize=4)
def _open(source: str, split: str, side: int, exactly: bool, _state: str) -> EncodedImages:
    if source == BUNDLED:
        return bundled_digits(split, side)
    folder = Path(os.path.expanduser(source))
    if os.path.isdir(folder) and has_idx(folder):  # unlike that of pathlib it takes any name
        return of_idx(source, folder, split, side)
    try:
        import datasets  # noqa: F401
        import PIL.Image  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(f"The image data {source!r}", "images") from None
    if os.path.isdir(folder) and (lists := _lists(folder.resolve(), split)):
        if len(lists) > 1:
            found = ", ".join(file.name for file in lists[:5])
            raise source_error(source, f"a folder with one list of the split {split!r}", f"There are {found}.")
        return EncodedImages.from_list(source, lists[0], side)
    names = (split, *(() if exactly else _INSTEAD.get(split, ())))
    if os.path.exists(folder):
        return EncodedImages.from_table(source, _local_table(source, folder, names), side)
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or not source.isprintable() or len(source) > 200:
        allowed = "an existing folder, a data set of the Hub such as 'cifar10', or 'shapes'"
        raise source_error(source, allowed, "There is no such folder.")
    return EncodedImages.from_table(source, _hub_table(source, names), side)


def _lists(folder: Path, split: str) -> list[Path]:
    return [*folder.glob(f"{split}.txt"), *sorted(folder.glob(f"*[_-]{split}.txt"))]


def _state(source: str, split: str) -> str:
    folder = Path(os.path.expanduser(source))
    if source == BUNDLED or not os.path.isdir(folder):
        return ""
    return stamp(folder, [*folder.glob("*idx?-ubyte*"), *_lists(folder, split)] or folder.rglob("*-*.parquet"))


def _local_table(source: str, folder: Path, names: tuple[str, ...]) -> "pa.Table":
    # Read by pyarrow, not by `datasets`, which would first copy everything into a cache in the home folder.
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    named = (sorted(folder.rglob(f"{name}-*.parquet")) for name in names)
    files = next((found for found in named if found), []) if folder.is_dir() else []
    if len(places := sorted({file.parent for file in files})) > 1:
        several = ", ".join(str(place.relative_to(folder)) for place in places[:5])
        raise source_error(
            source,
            "a folder that holds one data set",
            f"There are several: {several}. Name a folder that has one of them alone.",
        )
    if not files:
        found = sorted(p.name for p in folder.iterdir())[:5] if folder.is_dir() else [folder.name]
        raise source_error(
            source,
            f"a folder that holds {names[0]}-*.parquet, as the Hub lays them out, or a list *_{names[0]}.txt",
            f"Found {', '.join(found) or 'nothing'}. Download the data set's parquet files into it.",
        )
    require_whole(source, files)
    try:
        return joined(source, {file.name: pq.read_table(file) for file in files})
    except (pa.ArrowException, OSError) as error:
        raise source_error(source, "readable parquet files", f"{error}. Download them again.") from None


def _hub_table(source: str, names: tuple[str, ...]) -> "pa.Table":
    try:
        with asking_hub():
            return _first_of(_HUB_NAMES.get(source, source), *names)
    except Exception as error:  # whatever the network, the Hub and its client can raise: the cure is the same
        reason = (str(error).splitlines() or [""])[0][:200]
        raise source_error(
            source,
            "an existing folder, 'shapes', or a data set that the Hub can give",
            f"There is no such folder, and the Hub did not give {names[0]!r} ({type(error).__name__}: "
            f"{reason}). Name a folder with a copy of its parquet files, or 'shapes' for procedural "
            "images.",
        ) from error


def _first_of(name: str, split: str, *others: str) -> "pa.Table":
    """The split of a data set of the Hub; if it has none of this name, the first of ``others``."""
    import datasets

    try:
        return datasets.load_dataset(name, _ONE_OF.get(name), split=split).data.table
    except ValueError as error:
        if not others or "Unknown split" not in str(error):
            raise
        return _first_of(name, *others)
