"""What a study's own code raised, in a line: authors of studies read it, and nobody reads a traceback."""

import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import xarray as xr

from featscope.options import ConfigError

_OURS, _PYTHON = Path(__file__).parent, Path(traceback.__file__).parent
_INSTALLED = {"site-packages", "dist-packages"}
_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


def said(error: Exception, runs: Mapping[str, xr.Dataset] | None = None, arm: str = "") -> str:
    """An error of a study's own code in a line; where a series or an arm is unknown, what was meant.

    Args:
        error: what the code raised.
        runs: arm -> what was measured on it.
        arm: which one the code was about.
    """
    if runs and (name := series_asked_for(error)):
        measured = sorted({str(v) for run in runs.values() for v in run.variables})
        if name not in measured:
            return f"{name!r} is measured on no arm{nearest(name, measured)}"
        if arm in runs and name not in runs[arm]:
            return f"{name!r} is not measured on the arm {arm!r}"
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    if runs and isinstance(key, str) and get_close_matches(key, list(runs), 1):
        return f"{key!r} is no arm{nearest(key, list(runs))}"
    what = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    return f"{what}{_line_of(error)}"


def is_of_own_code(error: Exception) -> bool:
    """Whether an error passed code that is neither FeatScope's nor an installed package's."""
    return bool(_line_of(error))


def _line_of(error: Exception) -> str:
    """The last line outside of FeatScope and of installed packages that the error passed; empty if there is none.

    Where it came of what that line gave to FeatScope, FeatScope's last line stands beside it.
    """
    frames = [frame for frame in _frames(error) if _is_written_here(frame[0])]
    own = [frame for frame in frames if not frame[0].is_relative_to(_OURS)]
    if not own:
        return ""
    path, line, name = own[-1]
    within = "" if frames[-1] is own[-1] else f", then {frames[-1][0].relative_to(_OURS.parent)}, line {frames[-1][1]}"
    return f" ({path.name}, line {line}, in {name}{within})"


def _is_written_here(path: Path) -> bool:
    """Whether it is FeatScope's, or neither Python's, an installed package's, nor made as the program runs, as by
    dataclasses."""
    made = str(path).startswith("<") or path.suffix in (".pyx", ".pxi")  # frames of Cython name files that are not here
    others = path.is_relative_to(_PYTHON) or made or _INSTALLED.intersection(path.parts)
    return path.is_relative_to(_OURS) or not others


def _frames(error: Exception) -> Iterator[tuple[Path, int, str]]:
    """File, line and function, from the outermost on; those of a worker process come as the text of a traceback."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield Path(frame.filename), frame.lineno or 0, frame.name
    if type(error.__cause__).__name__ == "_RemoteTraceback":
        for file, line, name in _FRAME.findall(str(error.__cause__)):
            yield Path(file), int(line), name


def series_asked_for(error: Exception) -> str:
    """What a dataset was asked for that it does not have, as ``run.x`` or ``run["x"]``; empty for other errors."""
    if isinstance(error, AttributeError) and isinstance(error.obj, xr.Dataset):
        return error.name or ""
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else ""
    found = re.match(r"No variable named '(.+?)'", said)
    return found[1] if found else ""


def nearest(name: str, known: Sequence[str]) -> str:
    """What may have been meant by ``name``, or all that is known, behind a sentence."""
    near = get_close_matches(name, known, 1)
    return f": did you mean {near[0]!r}?" if near else f": allowed is one of {', '.join(known)}"
