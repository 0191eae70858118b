"""Processes of their own that run a trial with one module's source replaced: ``python -P planted.py``.

Of a file on each line of its input, a job, it does what that says in a fork of itself, and answers with how the fork
ended, as `subprocess.Popen.returncode` says it; what the fork says on stderr stands in the job's file "said". Torch is
imported once. Nothing of featscope may be imported before the replaced source is in place, so this file runs by its
path.

A job has "path" (`sys.path`), "target" and "replicas" (`featscope.testing.trial.find_trial`), "module" and "source"
(what is replaced; null for nothing), "trace" (packages whose executed lines are noted; null for none), "known" (a file
of what arms measure, written where "arms" is null), "arms" (those that are run again; what others measure is in
"known") and "result", the file that it writes: "claims" (fields of `featscope.testing.faults.Judged`), "digests" (arm
-> series -> hash), "lines" (arm, or what comes before or after arms -> module -> executed lines, null without "trace")
and "seconds" of processor time, without imports. It is ended after "limit" seconds of processor time, if that is not
null, so that other work on the machine stops nothing.
"""

import gc
import json
import os
import pickle
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import _lru_cache_wrapper
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

_FUNCTION = 0x1  # CO_OPTIMIZED: bodies of modules and classes do not have it
_TIMES = {"s", "ms"}  # no two runs take the same
BEFORE, AFTER = "<before>", "<after>"  # no arm's name has these brackets
NUMBERS = ("measured", "interval", "relation", "predicted", "tolerance", "n")


class _Replaced(SourceFileLoader):
    """Loads a module from another text than its file's."""

    def __init__(self, name: str, file: str, source: str) -> None:
        super().__init__(name, file)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class Planted(MetaPathFinder):
    """Serves ``source`` where ``module`` is imported."""

    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Replaced(fullname, spec.origin, self._source)
        return spec


class Trace:
    """Notes which lines of some packages are executed, in modules of which a function is called, and in which part.

    What a module does as it is imported is noted as `BEFORE`, whenever that is.

    Attributes:
        part: an arm, `BEFORE` or `AFTER`.
    """

    def __init__(self, packages: Sequence[str]) -> None:
        self.part = BEFORE
        self._packages = tuple(packages)
        self._lines: dict[str, dict[str, set[int]]] = {}
        self._called: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        name = frame.f_globals.get("__name__", "")
        if not any(name == one or name.startswith(f"{one}.") for one in self._packages):
            return None
        if frame.f_code.co_filename != frame.f_globals.get("__file__"):  # what dataclasses write
            return None
        function = frame.f_code.co_flags & _FUNCTION
        if function:
            self._called.add(name)
        lines = self._lines.setdefault(self.part if function else BEFORE, {}).setdefault(name, set())

        def local(frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
            if event == "line":
                lines.add(frame.f_lineno)
            return local

        return local

    def found(self) -> dict[str, dict[str, list[int]]]:
        """Part -> module -> lines."""
        return {
            part: {name: sorted(lines) for name, lines in sorted(modules.items()) if name in self._called}
            for part, modules in self._lines.items()
        }


def digests(run: Any) -> dict[str, str]:
    """A hash of each series of a dataset, bit by bit; durations are left out."""

    def digest(series: Any) -> str:
        values = series.values
        told = f"{series.dims}{values.shape}{values.dtype}".encode()
        return blake2b(told + values.tobytes(), digest_size=8).hexdigest()

    return {str(name): digest(one) for name, one in run.variables.items() if one.attrs.get("units") not in _TIMES}


def forget(packages: Sequence[str]) -> None:
    """Empty what functions of featscope, and of ``packages``, remember, so that each part executes what it needs."""
    theirs = {"featscope", *(one.partition(".")[0] for one in packages)}
    for one in gc.get_objects():
        if isinstance(one, _lru_cache_wrapper) and one.__module__.partition(".")[0] in theirs:
            one.cache_clear()


def look(job: Mapping[str, Any], trace: Trace | None) -> dict[str, Any]:
    """Run the trial, and say what it measured and claims."""
    from featscope.testing.trial import find_trial  # here, after what is planted
    from featscope.training import gradient as training

    training.gradient = lambda *_: None  # by autograd: a closed form stands in for code that may be replaced
    began = time.process_time()
    trial = find_trial(job["target"], job["replicas"])
    known = job["known"] and Path(job["known"])
    if job["arms"] is not None:
        stored = pickle.loads(known.read_bytes())
        trial.know({arm: run for arm, run in stored.items() if arm not in job["arms"]})
    for part in [*trial.arms, AFTER]:
        if trace:
            forget(job["trace"])
            trace.part = part
        if part != AFTER:
            trial.run(part)
    if known and job["arms"] is None:
        known.write_bytes(pickle.dumps(trial.runs))
    measured = {arm: digests(run) for arm, run in trial.runs.items()}
    fields = ("id", "arm", "expected", "verdict", "stands", *NUMBERS)
    claims = [{field: getattr(claim, field) for field in fields} for claim in trial.healthy.values()]
    return {"claims": claims, "digests": measured, "lines": None, "seconds": time.process_time() - began}


def run(job: Mapping[str, Any]) -> dict[str, Any]:
    """Do what ``job`` says."""
    if job["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (job["limit"], job["limit"]))
    sys.path[:] = job["path"]
    if job["module"] is not None:
        sys.meta_path.insert(0, Planted(job["module"], job["source"]))
    trace = Trace(job["trace"]) if job["trace"] else None
    if trace:
        sys.settrace(trace)
    found = look(job, trace)
    sys.settrace(None)
    return found | {"lines": trace.found() if trace else None}


def forked(job: Mapping[str, Any]) -> int:
    """Do what ``job`` says in a fork of this process; how that ended."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended = 1
    try:
        with Path(job["said"]).open("w", encoding="utf-8") as said:
            os.dup2(said.fileno(), 2)
        os.dup2(2, 1)  # answers are the parent's
        Path(job["result"]).write_text(json.dumps(run(job)), encoding="utf-8")
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(ended)


if __name__ == "__main__":
    # What is large and is never traced, of which each fork would import all anew:
    import jaxtyping  # noqa: F401
    import llvmlite.binding  # noqa: F401
    import netCDF4  # noqa: F401
    import rich.progress  # noqa: F401
    import scipy.linalg
    import scipy.special  # noqa: F401
    import torch
    import xarray  # noqa: F401

    torch.set_num_threads(1)
    for line in sys.stdin:
        print(forked(json.loads(Path(line.strip()).read_text(encoding="utf-8"))), flush=True)
