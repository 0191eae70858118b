"""`make torture`: end runs and sweeps at random moments, go on, and compare with what nobody touched.

Everything is imported once, and each attempt is a fork of this process, so that a kill costs what the run costs.
Moments are drawn with a seed, of two kinds: by the clock, anywhere between the begin and the end of an untouched run;
and at a write, right before the n-th time that a file below the folder is opened for writing, renamed or removed,
counted over all processes of the run. After each kill every file that is there must be sound, by its checksum.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from multiprocessing import Value
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; a process with threads cannot be forked

import psutil
import torch
from benchmarks.marked import DOCS, fill

import featscope
import featscope.commands.run as commands
from featscope.cli import main as command_line
from featscope.runs import program, workers
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory, read_trends
from featscope.tensors import unpacked
from processes import SMALL
from swept import installed

SECONDS_AT_MOST = 120.0
OF_THE_CLOCK = ("since", "seconds")  # in environment.json
READERS = {
    "config.json": read_plan,
    "environment.json": read_environment,
    "claims.json": read_claims,
    "trajectory.nc": read_trajectory,
    "trends.json": read_trends,
}
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT

PULL = ("pull", "--steps", "300", "--probe-every", "50", "--replicas", "4")  # of tests/swept.py
RUN, SWEEP = ("run", *PULL), ("sweep", *PULL, "--axis", "noise=0.1:1:3", "--axis", "width=3,1")
DECOUPLING = ("run", "decoupling", *SMALL)
TREND = ("trend", "tensor-power", "--steps", "40", "--replicas", "4", "--sequences", "6")
REPORT = ("report",)


class TortureError(Exception):
    """What should not happen."""


@dataclass(frozen=True)
class Row:
    """A way to end something.

    Attributes:
        name: in the table.
        words: the command, without its folder; of a report there is none but the folder.
        how: "clock", "write", "worker" or "disk".
        times: how often in a hundred kills; of what is no kill, runs.
        over: whether another run stands in the folder, to be overwritten.
        jumping: whether the system's clock jumps, back and forth, by up to a year.
    """

    name: str
    words: tuple[str, ...]
    how: str
    times: int
    over: bool = False
    jumping: bool = False


ROWS = (
    Row("`run`, killed by the clock", RUN, "clock", 12),
    Row("`run`, killed at a write", RUN, "write", 16),
    Row("`sweep`, killed by the clock", SWEEP, "clock", 12),
    Row("`sweep`, killed at a write", SWEEP, "write", 16),
    Row("`run --overwrite`, killed at a write", RUN, "write", 8, over=True),
    Row("`run`, killed by the clock while the system's time jumps", RUN, "clock", 8, jumping=True),
    Row("`run` of `decoupling`, killed by the clock", DECOUPLING, "clock", 8),
    Row("`trend` of `tensor-power`, killed by the clock", TREND, "clock", 6),
    Row("`trend` of `tensor-power`, killed at a write", TREND, "write", 6),
    Row("`report`, killed at a write", REPORT, "write", 8),
    Row("`run`, a worker killed", RUN, "worker", 10),
    Row("`run`, the disk full", RUN, "disk", 10),
)


@dataclass
class Tally:
    """What came of a row: how often it was ended, and of what was then finished, how much was compared and differed."""

    ended: int = 0
    compared: int = 0
    differing: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def attempt(
    words: Sequence[str | Path],
    log: Path,
    prepare: Callable[[], None] = lambda: None,
    meanwhile: Callable[[int], None] = lambda pid: None,
    loaded: Path | None = None,
) -> int:
    """Fork, run the command there, and wait for its exit code, negative after a signal.

    Args:
        words: the command.
        log: gets what it prints.
        prepare: is called in the fork, first.
        meanwhile: is called here with the fork's process id.
        loaded: gets the names of the modules that are loaded there in the end.

    Raises:
        TortureError: it hangs.
    """
    if (pid := os.fork()) == 0:
        _become([str(word) for word in words], log, prepare, loaded)
    meanwhile(pid)
    until = time.monotonic() + SECONDS_AT_MOST
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TortureError(f"{' '.join(map(str, words))} took more than {SECONDS_AT_MOST:g} s")
        time.sleep(0.002)


def _become(words: list[str], log: Path, prepare: Callable[[], None], loaded: Path | None) -> None:
    """Be the command, in a fork."""
    code: Any = 1
    try:
        printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        prepare()
        if words[0] != "report":
            commands.report_run = lambda out: out / "report.html"  # has a row of its own
        command_line(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if loaded is not None:
            loaded.write_text("\n".join(sys.modules))
        os._exit(code)


def die_at_write(out: Path, number: int, counter: Any) -> None:
    """Kill this process and its workers right before the ``number``-th write below ``out``; 0 only counts."""
    below, driver = f"{out}", os.getpid()

    def hook(event: str, words: tuple[Any, ...]) -> None:
        if event == "open":
            if not words[2] & OPENED_TO_WRITE:
                return
        elif event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
            return
        if not isinstance(words[0], str | bytes | os.PathLike) or not os.fsdecode(words[0]).startswith(below):
            return
        with counter.get_lock():
            counter.value += 1
            now = counter.value
        if now == number:
            os.kill(driver, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def use_one_core() -> None:
    """Work without workers."""
    workers.cores = lambda: 1


def let_time_jump(seed: int) -> None:
    """Let what the system's clock says jump at each look. What measures durations does not jump in a system, either."""
    draws, true = random.Random(seed), time.time

    def jumped() -> float:
        return true() + draws.uniform(-3e7, 3e7)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=draws.uniform(-3e7, 3e7))

    time.time = jumped
    time.time_ns = lambda: int(jumped() * 1e9)
    for name, module in list(sys.modules.items()):
        if name.startswith("featscope") and getattr(module, "datetime", None) is datetime:
            module.datetime = Jumping  # type: ignore[attr-defined]


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[int], Callable[[], None]]]:
    """What leaves room for some bytes more in ``folder``; where none can be mounted, it gives what limits a process."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False

    def limit(size: int) -> Callable[[], None]:
        if mounted:
            most = shutil.disk_usage(folder).used + size
            subprocess.run(["mount", "-o", f"remount,size={most}", str(folder)], check=True)
            return lambda: None
        return lambda: setrlimit(RLIMIT_FSIZE, (size // 8, size // 8))

    try:
        yield limit
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=False)


def require_sound(out: Path) -> None:
    """See that of each file that is there, whatever was killed, all is there.

    Raises:
        Exception: what its reader says.
    """
    for name, read in READERS.items():
        if (out / name).exists():
            read(out)
    for file in out.glob("*/*.safetensors"):
        if not file.name.startswith("."):
            unpacked(file)


def differences(one: Path, other: Path) -> list[str]:
    """Files that differ, and what one has and the other has not: in any byte, but for times in ``environment.json`` and
    what NetCDF says of when it was made."""
    names = [{str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()} for folder in (one, other)]
    found = sorted(names[0] ^ names[1])
    for name in sorted(names[0] & names[1]):
        contents: list[Any] = [(folder / name).read_bytes() for folder in (one, other)]
        if name == "environment.json":
            both = [read_environment(folder) for folder in (one, other)]
            contents = [{key: value for key, value in read.items() if key not in OF_THE_CLOCK} for read in both]
        if name == "trajectory.nc" and _same_trajectory(one, other):
            continue
        if contents[0] != contents[1]:
            found.append(name)
    return found


def _same_trajectory(one: Path, other: Path) -> bool:
    """Whether arms, variables, values to the bit and attributes are the same, and their order."""
    arms, others = read_trajectory(one), read_trajectory(other)
    if [*arms] != [*others] or not all(run.identical(others[name]) for name, run in arms.items()):
        return False
    both = [
        [(name, v.dtype, v.values) for run in runs.values() for name, v in run.variables.items()]
        for runs in (arms, others)
    ]
    return all(
        a[:2] == b[:2] and (a[1].kind == "O" or a[2].tobytes() == b[2].tobytes()) for a, b in zip(*both, strict=True)
    )


class Torture:
    """Runs and what ends them, below a scratch folder."""

    def __init__(self, scratch: Path, seed: int) -> None:
        self.scratch, self.seed = scratch, seed
        self.log = scratch / "log"
        self._untouched: dict[tuple[str, ...], tuple[Path, float, int]] = {}

    def finish(self, words: Sequence[str | Path], **how: Any) -> None:
        """Run a command to its end, see `attempt`.

        Raises:
            TortureError: it does not end well.
        """
        if code := attempt(words, self.log, **how):
            raise TortureError(f"exit code {code}: {' '.join(map(str, words))}\n{self.log.read_text()[-2000:]}")

    def untouched(self, words: tuple[str, ...]) -> tuple[Path, float, int]:
        """The folder of a command that nobody disturbs, the seconds that it takes and how often it writes.

        Before that it is run with one core, so that all is imported in one process, and then here, for all others.
        """
        if words not in self._untouched:
            once, out = (self.scratch / f"untouched-{len(self._untouched)}-{name}" for name in ("alone", "workers"))
            loaded, counter = self.scratch / "loaded", Value("i", 0)
            self.finish(self.begin(words, once), prepare=use_one_core, loaded=loaded)
            for name in loaded.read_text().split():
                with suppress(Exception):  # names that packages made up
                    import_module(name)
            command = self.begin(words, out)
            began = time.monotonic()
            self.finish(command, prepare=lambda: die_at_write(out, 0, counter))
            seconds = time.monotonic() - began
            self._untouched[words] = out, seconds, counter.value
        return self._untouched[words]

    def begin(self, words: tuple[str, ...], out: Path) -> list[str | Path]:
        """The command in ``out``; a report needs a finished run there."""
        if words != REPORT:
            return [*words, "--out", out]
        shutil.copytree(self.untouched(RUN)[0], out)
        return ["report", out]

    def again(self, row: Row, out: Path, words: list[str | Path]) -> list[str | Path]:
        """The command that goes on in ``out``."""
        if row.words == REPORT:
            return words
        if row.over and (not (out / "config.json").exists() or read_plan(out)["seed"] != 0):
            return [*words, "--overwrite"]  # what stood there is not yet, or only just, gone
        return [*words, "--resume"] if out.exists() else words

    def round(self, row: Row, draws: random.Random, tally: Tally, at_most: int) -> None:
        """End a run up to ``at_most`` times, three at the most, then finish it and compare."""
        whole, *_ = self.untouched(row.words)
        with self._room(row) as (out, limit):
            words = words_now = self.begin(row.words, out)
            if row.over:
                self.finish([*words, "--seed", "1"])
                words_now = [*words, "--overwrite"]
            for _ in range(draws.randint(1, min(3, at_most))):
                prepare, meanwhile = self._end(row, draws, out, limit)
                tally.ended += self._ended(row, attempt(words_now, self.log, prepare, meanwhile))
                require_sound(out)
                words_now = self.again(row, out, words)
            if row.how == "disk":
                limit(64 << 20)
            self.finish(words_now)
            found = differences(whole, out)
        tally.compared += 1
        tally.differing += bool(found)
        tally.wrong += [f"{', '.join(found)} differ"] if found else []

    def _end(
        self, row: Row, draws: random.Random, out: Path, limit: Callable[[int], Callable[[], None]]
    ) -> tuple[Callable[[], None], Callable[[int], None]]:
        """What ends an attempt: what is done in it first, and what is done here meanwhile."""
        whole, seconds, writes = self.untouched(row.words)
        clock, moment, place = draws.getrandbits(32), draws.random(), draws.getrandbits(8)
        first, meanwhile = (lambda: None), (lambda pid: None)
        if row.how == "write":
            counter, number = Value("i", 0), 1 + int(moment * writes)
            first = lambda: die_at_write(out, number, counter)  # noqa: E731
        elif row.how == "disk":
            first = limit(4096 * max(1, round(moment * _pages(whole))))
        else:
            victim = _first if row.how == "clock" else _worker
            meanwhile = lambda pid: _kill(pid, moment * seconds, victim, place)  # noqa: E731

        def prepare() -> None:
            first()
            if row.jumping:
                let_time_jump(clock)

        return prepare, meanwhile

    def _ended(self, row: Row, code: int) -> bool:
        """Whether the attempt was ended from outside.

        Raises:
            TortureError: it ended as it should not.
        """
        expected = {"clock": (-9,), "write": (-9,), "worker": (130,), "disk": (4, 2)}[row.how]
        if code != 0 and code not in expected:
            raise TortureError(f"exit code {code} of {row.name}\n{self.log.read_text()[-2000:]}")
        return code != 0

    @contextmanager
    def _room(self, row: Row) -> Iterator[tuple[Path, Callable[[int], Callable[[], None]]]]:
        """A new folder, and what limits its room."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            self.log.unlink(missing_ok=True)
            if row.how != "disk":
                yield Path(folder) / "out", lambda size: lambda: None
                return
            with small_disk(Path(folder) / "disk") as limit:
                yield Path(folder) / "disk" / "out", limit

    def row(self, row: Row, times: int) -> Tally:
        """End what a row says ``times`` times."""
        draws, tally, began = random.Random(f"{self.seed} {row.name}"), Tally(), time.monotonic()
        self.untouched(row.words)
        rounds = 0
        while tally.ended < times and rounds < 3 * times:  # a busy machine may let one finish before its moment comes
            rounds += 1
            try:
                self.round(row, draws, tally, times - tally.ended)
            except Exception as error:
                tally.compared += 1
                tally.differing += 1
                tally.wrong.append(f"{type(error).__name__}: {error}")
        tally.seconds = time.monotonic() - began
        return tally


def _pages(folder: Path) -> int:
    """Pages of 4 KiB that the files of a folder take."""
    return sum(-(-file.stat().st_size // 4096) for file in folder.rglob("*") if file.is_file())


def _first(pid: int, place: int) -> int:
    return pid


def _worker(pid: int, place: int) -> int | None:
    """One of the workers of ``pid``, forks of this very process; None if there is none now."""
    with suppress(psutil.Error):
        name = psutil.Process().cmdline()
        workers = [child.pid for child in psutil.Process(pid).children() if child.cmdline() == name]
        return workers[place % len(workers)] if workers else None
    return None


def _kill(pid: int, moment: float, victim: Callable[[int, int], int | None], place: int) -> None:
    """Kill what ``victim`` finds after ``moment`` seconds, or as soon as there is one."""
    process, moment = psutil.Process(pid), time.monotonic() + moment
    while process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > moment and (chosen := victim(pid, place)) is not None:
            with suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGKILL)
            return
        time.sleep(0.002)


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """In Markdown."""
    yield "| what | ended | finished and compared | differing | seconds |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, one in tallies.items():
        yield f"| {name} | {one.ended} | {one.compared} | {one.differing} | {one.seconds:.0f} |"


def main() -> None:
    """Torture, print the table, and exit with 1 if anything differs."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--kills", type=int, default=100, help="SIGKILLs of whole runs; other rows in proportion")
    words.add_argument("--seed", type=int, default=0, help="of the moments")
    words.add_argument("--rows", type=int, nargs="*", default=range(len(ROWS)), help="which of the table's, from 0 on")
    words.add_argument("--write", action="store_true", help="write docs/reliability.md")
    chosen = words.parse_args()
    program._SECONDS_BETWEEN_CHECKPOINTS = 0.02  # in place of ten
    workers.cores = lambda: 2
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as scratch:
        installed(Path(scratch) / "package")
        sys.path.insert(0, str(Path(scratch) / "package"))
        torture = Torture(Path(scratch), chosen.seed)
        for row in (ROWS[place] for place in chosen.rows):
            tallies[row.name] = found = torture.row(row, max(1, round(row.times * chosen.kills / 100)))
            print(f"{row.name}: {found.ended} ended, {found.differing} of {found.compared} differ", flush=True)
            for line in found.wrong:
                print(f"  {line}", flush=True)
    lines = list(table(tallies))
    print("\n".join(lines))
    if chosen.write:
        killed = [row.name for row in ROWS if row.how in ("clock", "write")]
        date, kills = f"{datetime.now(UTC):%Y-%m-%d}", sum(tallies[name].ended for name in killed if name in tallies)
        differing, compared = (sum(getattr(t, name) for t in tallies.values()) for name in ("differing", "compared"))
        said = f"{date}, `make torture`, seed {chosen.seed} of the moments, torch {torch.__version__}, FeatScope "
        said += f"{featscope.__version__}: {kills} kills, {differing} of {compared} results differ."
        fill(DOCS / "reliability.md", {"make torture": "\n".join([said, "", *lines])})
    sys.exit(any(found.differing for found in tallies.values()))


if __name__ == "__main__":
    main()
