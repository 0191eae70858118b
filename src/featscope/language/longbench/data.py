"""LongBench's examples: from a folder, from its zip file, or from the Hub."""

import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from featscope.files import each_once, kept_while_unchanged
from featscope.hub import asking_hub
from featscope.language.examples import is_text
from featscope.language.longbench.tasks import TASKS
from featscope.options import ConfigError

HUB = "THUDM/LongBench"
"""Its name on the Hub."""
_ZIP = "data.zip"
_ANY = re.compile(".*", re.DOTALL)
_FORMS = {
    "passage_count": (re.compile(r"\d+"), "a number in digits alone"),
    "passage_retrieval_en": (re.compile(r"Paragraph \d+"), "'Paragraph' and a number, as 'Paragraph 7'"),
}
"""How right answers look, where no other could be matched."""
_LAYOUT = "a folder with TASK.jsonl, data/TASK.jsonl or data.zip, or a data set of the Hub with data.zip"


class LongBenchExample(NamedTuple):
    """One example of a task.

    Attributes:
        input: the question or instruction; empty where the task has none.
        context: the long text.
        answers: all right answers.
        classes: of a classification task; else none.
    """

    input: str
    context: str
    answers: tuple[str, ...]
    classes: tuple[str, ...] = ()


@kept_while_unchanged(len(TASKS))
def read_task(source: str, task: str) -> tuple[LongBenchExample, ...]:
    """All examples of ``task``, in the order of the file.

    Args:
        source: a folder with ``TASK.jsonl``, ``data/TASK.jsonl`` or ``data.zip``; or a data set of the Hub that has
            ``data.zip``, such as "THUDM/LongBench" (whose loading script newer versions of `datasets` do not run).
        task: one of `TASKS`.

    Raises:
        ConfigError: no such source or file, or a line that is not as LongBench's.
    """
    where, lines = _lines(source, task)
    examples = tuple(_example(f"{where}, line {number}", line, task) for number, line in lines if line.strip())
    if not examples:
        raise ConfigError(f"data = {source!r}: {where} is empty: allowed is one example or more, a JSON object a line")
    return examples


def _lines(source: str, task: str) -> tuple[str, Iterator[tuple[int, str]]]:
    folder = Path(os.path.expanduser(source))
    if os.path.isdir(folder):
        for file in (folder / f"{task}.jsonl", folder / "data" / f"{task}.jsonl"):
            if file.is_file():
                return file.name, enumerate(_decoded(file.read_bytes(), source, file.name).split("\n"), 1)
        packed = folder / _ZIP
        if not packed.is_file():
            raise ConfigError(
                f"data = {source!r} has no {task}.jsonl: allowed is {_LAYOUT}. Add the file, or name other --tasks."
            )
    else:
        packed = _downloaded(source)
    try:
        with zipfile.ZipFile(packed) as archive:
            names = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == f"{task}.jsonl"]
            if not names:
                raise ConfigError(
                    f"data = {source!r}: {_ZIP} has no {task}.jsonl: allowed is LongBench's own. Download it again."
                )
            text = _decoded(archive.read(names[0]), source, names[0])
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, RuntimeError):  # cut off, encrypted, packed otherwise
        raise ConfigError(
            f"data = {source!r}: {_ZIP} is no zip file that can be read: allowed is LongBench's own. Get it again."
        ) from None
    return f"{_ZIP}, {names[0]}", enumerate(text.split("\n"), 1)


def _decoded(content: bytes, source: str, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(
            f"data = {source!r}: {name} is not UTF-8: allowed is the benchmark's own. Get it again."
        ) from None


def one_file(source: str, name: str, hub: str) -> tuple[str, str]:
    """Where a file of a benchmark is, and its text.

    Args:
        source: a folder that has it, or a data set of the Hub.
        name: of the file.
        hub: a data set of the Hub that has it, for messages.

    Raises:
        ConfigError: there is none, or it is not UTF-8.
    """
    folder = Path(os.path.expanduser(source))
    layout = f"a folder with {name}, or a data set of the Hub with it"
    if not os.path.isdir(folder):
        file = _downloaded(source, name, layout, hub)
    elif not (file := folder / name).is_file():
        raise ConfigError(f"data = {source!r} has no {name}: allowed is {layout}. Add the file, or name other --tasks.")
    return f"data = {source!r}, {name}", _decoded(file.read_bytes(), source, name)


def _downloaded(source: str, name: str = _ZIP, layout: str = _LAYOUT, hub: str = HUB) -> Path:
    if source.startswith((".", "/", "~")) or source.count("/") != 1:
        raise ConfigError(f"data = {source!r} is no folder: allowed is {layout}, such as {hub!r}")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with asking_hub():
            return Path(hf_hub_download(source, name, repo_type="dataset"))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"data = {source!r} cannot be had from the Hub ({reason}): allowed is {layout}. "
            f"Download {name} elsewhere and name its folder."
        ) from None


def _example(where: str, line: str, task: str) -> LongBenchExample:
    try:
        found: Any = json.loads(line, object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:  # no JSON, or one that is nested thousands of times
        raise ConfigError(
            f"{where} is no JSON ({str(error)[:100]}): allowed is an object a line. Correct the file."
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{where} is {line[:60]!r}: allowed is a JSON object. Correct the file.")
    classes = found.get("all_classes")
    _require(where, "input", found, is_text(found.get("input")), "a text")
    _require(where, "context", found, is_text(found.get("context")), "a text")
    _require(where, "answers", found, _texts(found.get("answers")), "a list of one text or more")
    _require(where, "all_classes", found, classes is None or _texts(classes), "null, or a list of texts")
    _require(where, "all_classes", found, task != "trec" or classes is not None, "a list of texts for trec")
    answers = [one for one in found["answers"] if one.strip()]  # a blank is in whatever is said
    form, allowed = _FORMS.get(task, (_ANY, "something in them"))
    _require(where, "answers", found, bool(answers) and all(map(form.fullmatch, answers)), f"texts with {allowed}")
    known = task != "trec" or {*answers} <= {*(classes or ())}
    _require(where, "answers", found, known, "texts that are among all_classes")
    return LongBenchExample(found["input"], found["context"], tuple(answers), tuple(classes or ()))


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_text, value))


def _require(where: str, field: str, found: dict[str, Any], condition: bool, allowed: str) -> None:
    if not condition:
        value = repr(found[field])[:60] if field in found else "missing"
        raise ConfigError(
            f"{where}: {field} = {value}: allowed is {allowed}, as in LongBench's files. Correct the file."
        )
