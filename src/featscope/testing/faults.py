"""Planting faults of one line in the parts that a study uses, and seeing which claims notice.

A trial is run once as it is, with the lines noted that each arm executes, and once more without a look at lines. Then,
each in a process of its own and at the same seed, with one line changed, it is run again. An arm that does not execute
that line measures the same; it is not run, and its measurements are those without a fault. The fault is then

- *equal*: no measurement and no number of a claim is another, to the bit. The fault is not one, or was not reached.
- *stopped*: an error, a divergence, or more than five times the time of the processor. Anybody notices that without a
  claim.
- *noticed*: a claim that is expected to hold, and did, no longer does; or one that was undecided, but whose measured
  value satisfied it (`stands`), no longer does by more than the half-width of its healthy interval.
- *unnoticed*: something measured is another, and no claim says so.

The share that is reported is noticed over noticed and unnoticed.
"""

import json
import math
import signal
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from inspect import getsourcelines
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from featscope.options import ConfigError
from featscope.studies import Study
from featscope.testing import planted
from featscope.testing.mutants import Mutant, Site, in_turn, plant, sites
from featscope.testing.servers import Servers
from featscope.testing.trial import find_trial
from featscope.threads import cores

PARTS = tuple(f"featscope.{floor}" for floor in ("data", "views", "models", "losses", "training", "theory", "probes"))
"""Packages in which faults are planted, beside the study's own."""
_LONGER = 5  # times the healthy run, after which one is stopped
_GRACE = 5.0  # seconds of processor time more, for imports
_ASLEEP = 40  # times the limit, of time by the clock, after which it is taken to sleep forever

Outcome = Literal["equal", "stopped", "noticed", "unnoticed"]


@dataclass(frozen=True)
class Judged:
    """A claim as far as faults are concerned; the fields are those of `featscope.claims.Claim`."""

    id: str
    arm: str
    expected: bool
    verdict: str
    stands: bool
    measured: float
    interval: tuple[float, float]
    relation: str
    predicted: float
    tolerance: float
    n: int

    @property
    def name(self) -> str:
        """The claim and its arm."""
        return f"{self.id}@{self.arm}"


def margin(claim: Judged) -> float:
    """By how much the measured value satisfies the claim; negative where it does not, NaN where nothing is known."""
    if claim.relation == "=":
        return claim.tolerance - abs(claim.measured - claim.predicted)
    return claim.predicted - claim.measured if claim.relation in ("<=", "<") else claim.measured - claim.predicted


Judgements = Mapping[str, Judged]
"""Name -> claim."""


@dataclass(frozen=True)
class Look:
    """What a run of the trial left.

    Attributes:
        claims: the claims.
        digests: arm -> series -> hash of what was measured.
        lines: part (an arm, or what comes before or after arms) -> module -> executed lines, where they were asked for.
        seconds: how long it took, without imports.
    """

    claims: Judgements
    digests: Mapping[str, Mapping[str, str]]
    lines: Mapping[str, Mapping[str, Sequence[int]]]
    seconds: float

    @property
    def fingerprint(self) -> str:
        """A hash of all that was measured and claimed."""
        told = json.dumps([self.digests, [asdict(claim) for claim in self.claims.values()]], sort_keys=True)
        return blake2b(told.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Fate:
    """What became of a fault.

    Attributes:
        key: what the fault is known by.
        module: where it was planted.
        line: in which line.
        kind: what kind it is.
        before: the line.
        after: what it became.
        outcome: see the top of this module.
        claims: expected claims that noticed it, "id@arm".
        controls: claims that are not expected to hold, and did not, and now do: a reader might see that.
        arms: arms that measured something else; empty where claims alone have other numbers.
        why: of one that was stopped, the error.
    """

    key: str
    module: str
    line: int
    kind: str
    before: str
    after: str
    outcome: Outcome
    claims: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    arms: list[str] = field(default_factory=list)
    why: str = ""


@dataclass(frozen=True)
class Report:
    """A healthy trial and its faults.

    Attributes:
        target: study or trial.
        healthy: a hash of what it measures and claims without a fault.
        seed: of the choice of faults.
        expected: how many claims are expected to hold.
        held: how many of these do without a fault.
        places: in how many ways one line could be changed.
        seconds: how long the healthy trial takes.
        faults: what became of those that were planted.
        code: a hash of the modules that the trial executes.
    """

    target: str
    healthy: str
    seed: int
    expected: int
    held: int
    places: int
    seconds: float
    faults: list[Fate]
    code: str = ""

    def count(self, outcome: Outcome) -> int:
        """How many faults had it."""
        return sum(fault.outcome == outcome for fault in self.faults)


def noticed_by(before: Judgements, after: Judgements) -> list[str]:
    """Expected claims that held, or stood, and no longer do; see the top of this module."""
    return [name for name, claim in before.items() if claim.expected and _lost(claim, after.get(name))]


def _lost(claim: Judged, now: Judged | None) -> bool:
    if claim.verdict == "holds":
        return now is None or now.verdict != "holds"
    if not (claim.verdict == "undecided" and claim.stands):
        return False
    low, high = claim.interval
    spread = (high - low) / 2
    if not math.isfinite(spread):  # a single replica says nothing of chance
        return False
    return now is None or not margin(now) >= -spread


def _woken(before: Judgements, after: Judgements) -> list[str]:
    return [
        name
        for name, claim in before.items()
        if not claim.expected and claim.verdict == "fails" and name in after and after[name].verdict == "holds"
    ]


class Bench:
    """A trial on which faults are tried.

    Args:
        target: the name of a study, or "module:NAME" of a trial (`find_trial`).
        replicas: of every arm of a study.

    Raises:
        ConfigError: there is no such trial, or it cannot be run twice with the same result.
    """

    def __init__(self, target: str, replicas: int | None = None) -> None:
        self.target, self.replicas = target, replicas
        study = find_trial(target, replicas).study
        self._place, self._servers = TemporaryDirectory(), Servers()
        self._known = str(Path(self._place.name) / "known.pickle")
        with ThreadPoolExecutor(min(2, cores())) as pool:
            traced = pool.submit(self.look, trace=[*PARTS, package_of(study)])
            plain = pool.submit(self.look, keep=True)
            self.healthy, self.parts = plain.result(), traced.result().lines
        if self.healthy.fingerprint != traced.result().fingerprint:
            raise ConfigError(f"{target} does not measure the same twice: take all chance from the streams")
        lines: dict[str, set[int]] = {}
        for modules in self.parts.values():
            for module, executed in modules.items():
                lines.setdefault(module, set()).update(executed)
        self.sources = {module: Path(_file(module)).read_text(encoding="utf-8") for module in lines}
        self.sites = sites(self.sources, lines, _judges(study))

    def look(
        self,
        module: str | None = None,
        source: str | None = None,
        trace: Sequence[str] = (),
        limit: float | None = None,
        arms: Sequence[str] | None = None,
        keep: bool = False,
    ) -> Look:
        """Run the trial, or ``arms`` of it, in a process of its own, with ``source`` in the place of ``module``'s.

        Raises:
            RuntimeError: an error ended it, or it took longer than ``limit`` seconds; the message says which.
        """
        with TemporaryDirectory() as place:
            job, result, said = (Path(place) / name for name in ("job.json", "result.json", "said"))
            todo: dict[str, Any] = {"path": sys.path, "target": self.target, "replicas": self.replicas}
            todo |= {"module": module, "source": source, "trace": list(trace), "result": str(result)}
            todo["said"] = str(said)
            todo |= {"arms": arms, "known": self._known if keep or arms is not None else None}
            todo["limit"] = None if limit is None else round(limit)
            job.write_text(json.dumps(todo), encoding="utf-8")
            ended = self._servers.do(job, limit and _ASLEEP * limit)
            if ended is None:
                raise RuntimeError("does not end")
            if ended in (-signal.SIGXCPU, -signal.SIGKILL):
                raise RuntimeError(f"took more than {_LONGER} times as long")
            if ended or not result.exists():
                last = said.read_text(encoding="utf-8").strip().splitlines() or [f"ended with {ended}"]
                raise RuntimeError(last[-1])
            told = json.loads(result.read_text(encoding="utf-8"))
        claims = [Judged(**{**claim, "interval": tuple(claim["interval"])}) for claim in told["claims"]]
        by_name = {claim.name: claim for claim in claims}
        return Look(by_name, told["digests"], told["lines"] or {}, told["seconds"])

    def mutants(self, seed: int) -> Iterator[Mutant]:
        """Faults in the order in which they are tried; no two are the same."""
        known: set[str] = set()
        for site in in_turn(self.sites, seed):
            mutant = self._plant(site)
            if mutant is not None and mutant.key not in known:
                known.add(mutant.key)
                yield mutant

    def arms(self, mutant: Mutant) -> list[str]:
        """The arms that execute the fault; all of them if it is executed before any."""
        there = [
            part
            for part, modules in self.parts.items()
            if not set(mutant.lines).isdisjoint(modules.get(mutant.module, ()))
        ]
        return [arm for arm in self.healthy.digests if arm in there or planted.BEFORE in there]

    def _plant(self, site: Site) -> Mutant | None:
        return plant(self.sources[site.module], site)

    def try_out(self, mutant: Mutant) -> Fate:
        """What becomes of a fault."""
        about = {name: getattr(mutant, name) for name in ("key", "module", "line", "kind", "before", "after")}
        try:
            limit = _LONGER * self.healthy.seconds + _GRACE
            found = self.look(mutant.module, mutant.source, limit=limit, arms=self.arms(mutant))
        except RuntimeError as error:
            return Fate(**about, outcome="stopped", why=str(error))
        if found.fingerprint == self.healthy.fingerprint:
            return Fate(**about, outcome="equal")
        return Fate(
            **about,
            outcome="noticed" if (claims := noticed_by(self.healthy.claims, found.claims)) else "unnoticed",
            claims=claims,
            controls=_woken(self.healthy.claims, found.claims),
            arms=[arm for arm, series in self.healthy.digests.items() if found.digests.get(arm) != series],
        )

    def report(self, seed: int, faults: Sequence[Fate]) -> Report:
        """The trial with ``faults``."""
        expected = [claim for claim in self.healthy.claims.values() if claim.expected]
        held = sum(claim.verdict == "holds" for claim in expected)
        places, seconds = len(self.sites), round(self.healthy.seconds, 1)
        code = blake2b(json.dumps(self.sources, sort_keys=True).encode(), digest_size=8).hexdigest()
        about = (self.target, self.healthy.fingerprint, seed, len(expected), held, places, seconds)
        return Report(*about, list(faults), code)


def try_faults(bench: Bench, faults: int, seed: int, out: Path, say: Callable[[Fate], None]) -> Report:
    """Plant faults until ``faults`` have changed something and ran to the end, or there are no more.

    Args:
        bench: the trial.
        faults: how many.
        seed: of their choice.
        out: a file of JSON lines, one a fault, written as it goes; what stands there is not run again.
        say: told of each.

    Raises:
        ConfigError: ``out`` was written for another trial, other code or another seed.
    """
    known = _begun(out, bench.report(seed, []))
    found: list[Fate] = []
    workers = min(2, cores())
    with ThreadPoolExecutor(workers) as pool:
        queue = deque[Future[Fate]]()
        order = bench.mutants(seed)

        def begin(mutant: Mutant) -> None:
            queue.append(pool.submit(lambda: known.get(mutant.key) or bench.try_out(mutant)))

        for mutant in islice(order, workers):
            begin(mutant)
        while queue and sum(one.outcome in ("noticed", "unnoticed") for one in found) < faults:
            one = queue.popleft().result()
            found.append(one)
            if one.key not in known:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
            say(one)
            for mutant in islice(order, 1):
                begin(mutant)
        for left in queue:
            left.cancel()
    return bench.report(seed, found)


def read(out: Path) -> Report:
    """What stands in a file of JSON lines that `try_faults` wrote, as far as it came.

    Raises:
        ConfigError: it is another file, or its last line is cut.
    """
    try:
        head, *lines = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        return Report(**head, faults=[Fate(**line) for line in lines])
    except (OSError, ValueError, TypeError):
        raise ConfigError(
            f"--out = {out} holds no planted faults, or its last line is cut: allowed is a file that was begun with "
            "this command, or a new one. Take off that line, or name another file"
        ) from None


def _begun(out: Path, report: Report) -> dict[str, Fate]:
    """The faults that stand in ``out``, which is begun if it is not there."""
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        head = {name: value for name, value in asdict(report).items() if name != "faults"}
        out.write_text(json.dumps(head) + "\n", encoding="utf-8")
        return {}
    before = read(out)
    if any(getattr(before, name) != getattr(report, name) for name in ("target", "healthy", "seed", "code")):
        raise ConfigError(
            f"--out = {out} was written for another trial or other code, or with another --seed: remove it, or name "
            "another file"
        )
    return {fault.key: fault for fault in before.faults}


def package_of(study: Study) -> str:
    """The package that a study stands in; its module where that is in no package of the study's own."""
    module = type(study).__module__
    package = module.rpartition(".")[0]
    return package if package not in ("", "featscope", "featscope.studies") else module


def _judges(study: Study) -> Mapping[str, Collection[int]]:
    """Module -> lines of the study's claims."""
    found: dict[str, set[int]] = {}
    for test in study.tests:
        text, first = getsourcelines(test.method)
        found.setdefault(test.method.__module__, set()).update(range(first, first + len(text)))
    return found


def _file(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ConfigError(f"the source of {module} cannot be found")
    return spec.origin
