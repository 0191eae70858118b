"""How a run tells what it does: in words, in as few as possible, or as an event a line for machines."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featscope.claims import Claim
from featscope.options import ConfigError, MissingExtraError
from featscope.runs.progress import Show


@dataclass(frozen=True)
class Telling:
    """What is told of a run, and where.

    Attributes:
        watch: follow it in a browser on this machine while it trains.
        quiet: print verdicts and errors only.
        json: print an event a line, as JSON, and nothing else on standard output.
    """

    watch: bool = False
    quiet: bool = False
    json: bool = False

    def __post_init__(self) -> None:
        if self.quiet and self.json:
            raise ConfigError("--quiet and --json exclude each other: give one of them")

    @property
    def show(self) -> Show:
        """How progress is told."""
        return "json" if self.json else "quiet" if self.quiet else "bar"

    def watched(self, out: Path) -> AbstractContextManager[None]:
        """A server of the run in ``out``, if it was asked for."""
        if not self.watch:
            return nullcontext()
        from featscope.watch.beside import watched

        return watched(out)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Tell machines, too, what is refused within; by then options are called as they are typed."""
        try:
            yield
        except (ConfigError, MissingExtraError) as error:
            self.event("failed", code=2, why=str(error))
            raise

    def say(self, text: str) -> None:
        """A line that is neither verdict nor error."""
        if self.show == "bar":
            print(text)

    def event(self, kind: str, **about: Any) -> None:
        """Something that has happened, for machines."""
        if self.json:
            print(json.dumps({"event": kind} | {name: _plain(value) for name, value in about.items()}), flush=True)

    def claims(self, claims: Sequence[Claim]) -> None:
        """The verdicts, for machines."""
        for claim in claims:
            low, high = claim.interval
            self.event(
                "claim",
                id=claim.id,
                arm=claim.arm,
                verdict=claim.verdict,
                expected=claim.expected,
                measured=claim.measured,
                interval=[_plain(low), _plain(high)],
                relation=claim.relation,
                predicted=claim.predicted,
                tolerance=claim.tolerance,
                law=claim.law,
                undecided_because=claim.undecided_because,
            )


def _plain(value: Any) -> Any:
    """JSON has no number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
