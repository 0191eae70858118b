"""Shards on the machines of a Ray cluster."""

import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from featscope.allocator import keep_freed_memory
from featscope.files import atomic_write
from featscope.options import ConfigError, MissingExtraError
from featscope.runs.environment import environment, module_of
from featscope.runs.folder import RunFolder
from featscope.runs.progress import ProgressBoard, Show, parts
from featscope.runs.shard import Shard, ShardResult
from featscope.runs.workers import InterruptedRunError, Stop, Trainer, at_a_time, stop_on_signals
from featscope.threads import compute_with_one_thread, cores

_LOST_WORKERS = 5  # that one shard may cost before the run gives up; a lost shard begins anew, with the same draws
_environment = lru_cache(environment)  # of a worker, which has several shards
_SECONDS_BETWEEN_REPORTS = 0.2
_SECONDS_TO_ANSWER = 5.0
_INTERRUPTED = "blocks of replicas that are not done begin anew"


def on_cluster(address: str | None, show: Show = "bar") -> Trainer:
    """A trainer that sends each shard to a Ray worker with one core, and keeps what comes back in the run folder.

    Args:
        address: the cluster's address; None begins one on this machine with all its cores, which talks to nobody who
            does not have its token.
        show: how progress is told.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: nothing answers at ``address``.
    """
    if address is None and "ray" not in sys.modules:
        # Servers of Ray listen on all addresses of a machine. The mode is read when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if address is not None and not re.fullmatch(r"auto|(ray://)?[\w.\-\[\]:]+:[0-9]{1,5}", address):
        raise ConfigError(
            f"--address = {address!r} is no address of a Ray cluster: allowed is HOST:PORT, ray://HOST:PORT or auto. "
            "Leave it out to begin one on this machine."
        )
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--engine ray", "cluster") from None
    if address is not None:
        _require_answer(address)

    def train(folder: RunFolder, shards: Sequence[Shard], device: str) -> list[ShardResult]:
        others = frozenset(psutil.Process().children(recursive=True))
        try:
            # Logs stay with the workers: what matters comes back as results and errors.
            ray.init(
                address or "local",
                num_cpus=None if address else at_a_time(cores()),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except Exception as error:  # of many kinds, from the network to the versions of Ray and Python
            raise _no_cluster(address, error) from None
        with nullcontext() if address else _ended_with_this_process(but=others):
            try:
                return _train(ray, folder, shards, device, show)
            finally:
                ray.shutdown()

    return train


_WATCH = """
import sys
import psutil
found = []
for line in sys.stdin:  # ends when the process does that holds the other end, however it ends
    pid, since = line.split()
    try:
        if repr((process := psutil.Process(int(pid))).create_time()) == since:
            found.append(process)
    except psutil.NoSuchProcess:
        pass
for process in psutil.wait_procs(found, timeout=5)[1]:
    process.kill()
"""


@contextmanager
def _ended_with_this_process(but: frozenset[psutil.Process]) -> Iterator[None]:
    """Kill what a cluster that was begun here has left, also where this process is killed: two of Ray's agents stay.

    Args:
        but: children that this process had before, which are none of the cluster's.
    """
    watch = [sys.executable, "-c", _WATCH]
    started = set(psutil.Process().children(recursive=True)) - but
    with subprocess.Popen(watch, stdin=subprocess.PIPE, text=True, start_new_session=True) as watching:
        assert watching.stdin is not None
        for process in started:
            with suppress(psutil.NoSuchProcess):  # a helper that has ended
                watching.stdin.write(f"{process.pid} {process.create_time()!r}\n")
        watching.stdin.flush()
        yield


def _no_cluster(address: str | None, error: Exception) -> ConfigError:
    return ConfigError(f"--address = {address!r}: no Ray cluster answers ({error}): correct it, or `ray start --head`")


def _require_answer(address: str) -> None:
    """Ray itself would try for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from None


def _train(ray: Any, folder: RunFolder, shards: Sequence[Shard], device: str, show: Show) -> list[ShardResult]:
    watched = ProgressBoard(parts([shard.arm for shard in shards]), folder.path, show, can_pause=False)
    remote = ray.remote(num_cpus=1, num_gpus=int(device != "cpu"), max_retries=_LOST_WORKERS)(_in_worker)
    results: dict[int, ShardResult] = {}
    stop = Stop(watched, "stopping ...")
    with watched as board, stop_on_signals(stop):
        waiting = {}
        for place, shard in enumerate(shards):
            if shard.finished(folder):
                results[place] = shard.run(folder, lambda: False, lambda steps, status: None)
                board.advance(shard.arm.name, shard.arm.recipe.steps, "resumed")
            else:
                waiting[remote.remote(shard)] = place
        try:
            while waiting:
                board.beat()
                if stop.is_set() or board.wish() == "stop":
                    raise InterruptedRunError(_INTERRUPTED)
                done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=_SECONDS_BETWEEN_REPORTS)
                for reference in done:
                    place = waiting.pop(reference)
                    results[place], files = ray.get(reference)
                    for name, content in files.items():
                        atomic_write(folder.path / "checkpoint" / name, content)
                    shard = shards[place]
                    board.advance(shard.arm.name, shard.arm.recipe.steps, f"replicas {shard.replicas} done")
        except InterruptedRunError as error:
            error.computed_by = _who(results)
            raise
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ray.exceptions.RaySystemError):  # what was sent could not be read there
                what = str(error.cause).partition("\n")[0]
                cure = "install there what is installed here"
                raise ConfigError(f"Ray workers cannot load the study ({what}): {cure}") from None
            raise error.cause from None
        except ray.exceptions.RayError as error:
            lost = InterruptedRunError(f"Ray workers were lost: {error}")
            lost.computed_by = _who(results)
            raise lost from None
    return [results[place] for place in range(len(shards))]


def _who(results: Mapping[int, ShardResult]) -> list[Mapping[str, Any] | None]:
    """The machines that computed what is done; None for what was there, and computed here."""
    return [result.computed_by for result in results.values()]


def _in_worker(shard: Shard) -> tuple[ShardResult, dict[str, bytes]]:
    """Train ``shard`` with one core: its result, and the files that a local run would have left."""
    compute_with_one_thread()
    keep_freed_memory()
    # Ray shows a worker its own GPU alone, which is the first there.
    shard = replace(shard, device="cpu" if shard.device == "cpu" else "cuda")
    shard = replace(shard, computed_by=_environment(shard.device, module_of(shard.study)))
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder.create(Path(scratch))
        result = shard.run(folder, lambda: False, lambda steps, status: None)
        files = {file.name: file.read_bytes() for file in (Path(scratch) / "checkpoint").iterdir()}
    return result, files
