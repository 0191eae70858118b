"""Runs as tables for other tools: claims, and what was measured, in pandas frames and files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

import pandas as pd
import xarray as xr

from featscope.claims import Claim
from featscope.files import atomic_write
from featscope.options import ConfigError, MissingExtraError

Kind = Literal["csv", "parquet"]
TABLES = "tables"
"""Folder in a run's own that receives them where none is named."""
_COLUMNS = ("id", "arm", "source", "title", "relation", "predicted", "tolerance", "measured", "low", "high", "n", "law")


def claims_frame(claims: Sequence[Claim]) -> pd.DataFrame:
    """A row a claim and arm, with measurement, ends of the interval, verdict, and whether it was expected to hold."""
    rows = [
        {name: getattr(claim, name) for name in _COLUMNS if name not in ("low", "high")}
        | {"low": claim.interval[0], "high": claim.interval[1], "verdict": claim.verdict, "expected": claim.expected}
        for claim in claims
    ]
    return pd.DataFrame(rows, columns=[*_COLUMNS, "verdict", "expected"])


def values_frame(claims: Sequence[Claim]) -> pd.DataFrame:
    """A row a claim, arm and replica: what was measured there."""
    rows = [(one.id, one.arm, replica, value) for one in claims for replica, value in enumerate(one.values)]
    return pd.DataFrame(rows, columns=["id", "arm", "replica", "value"])


def measured_frames(run: xr.Dataset) -> Iterator[tuple[str, pd.DataFrame]]:
    """What was measured on an arm: names of the axes, with dashes -> a row a point of them, a column a series."""
    by_axes: dict[tuple[str, ...], list[str]] = {}
    for name, variable in run.data_vars.items():
        by_axes.setdefault(tuple(map(str, variable.dims)), []).append(str(name))
    for axes, names in by_axes.items():
        yield "-".join(axes), run[names].to_dataframe().reset_index()


def export(
    runs: Mapping[str, xr.Dataset], claims: Sequence[Claim], out: Path, kind: Kind, overwrite: bool = False
) -> list[Path]:
    """Write ``claims``, ``values`` and ``ARM.AXES`` into ``out``; the files.

    Args:
        runs: arm -> what was measured.
        claims: what was judged.
        out: a folder, which is made.
        kind: "csv", or "parquet", which needs the extra 'images'.
        overwrite: replace files of these names, and remove tables of this kind that another run left there.

    Raises:
        ConfigError: ``out`` cannot be written, or holds a file that would be replaced.
        MissingExtraError: parquet without pyarrow.
    """
    frames = {"claims": claims_frame(claims), "values": values_frame(claims)}
    for arm, run in runs.items():
        frames |= {f"{arm}.{axes}": frame for axes, frame in measured_frames(run)}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out = {str(out)!r} cannot be written ({error.strerror}): choose another folder") from None
    files = [out / f"{name}.{kind}" for name in frames]
    if not overwrite and (there := [file.name for file in files if file.exists()]):
        also = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise ConfigError(
            f"--out = {str(out)!r} holds {there[0]}{also} already: allowed is a folder without them. Choose another, "
            "or replace them by --overwrite."
        )
    for file, frame in zip(files, frames.values(), strict=True):
        try:
            data = frame.to_csv(index=False).encode() if kind == "csv" else frame.to_parquet(index=False)
        except ImportError:
            raise MissingExtraError("Parquet", "images") from None
        atomic_write(file, data)
    if overwrite:
        for file in set(_tables(out, kind)).difference(files):
            file.unlink()
    return files


def remove_tables(out: Path) -> None:
    """Remove what `export` wrote into ``out``, and the folder if nothing else is in it."""
    for file in [file for kind in get_args(Kind) for file in _tables(out, kind)]:
        file.unlink()
    with suppress(OSError):
        out.rmdir()


def _tables(out: Path, kind: Kind) -> Iterator[Path]:
    """What `export` wrote into ``out``, by its name."""
    for file in out.glob(f"*.{kind}"):
        arm, _, axes = file.stem.rpartition(".")
        if file.stem in ("claims", "values") or (arm and "replica" in axes.split("-")):  # an axis of each series
            yield file
