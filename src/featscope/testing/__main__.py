"""``python -m featscope.testing STUDY|MODULE:TRIAL``: plant faults, and see which claims notice."""

from featscope.threads import wait_without_spinning

wait_without_spinning()

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from featscope.options import ConfigError, MissingExtraError


def parsed(words: Sequence[str] | None) -> Namespace:
    """The command line."""
    parser = ArgumentParser("python -m featscope.testing", description="Which planted faults do claims notice?")
    parser.add_argument("target", help="a study, at its smallest size; or MODULE:NAME of a featscope.testing.Trial")
    parser.add_argument("--faults", type=int, default=20, help="how many that change something (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice among all faults (default 0)")
    parser.add_argument("--replicas", type=int, help="of every arm of a study (default 8)")
    parser.add_argument("--out", type=Path, help="file of JSON lines to write, or to go on with")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Print a line a fault as it goes; 2 after a wrong option."""
    given = parsed(words)
    try:
        from featscope.testing.faults import Bench, Fate, try_faults  # here, so that a missing extra is named

        bench = Bench(given.target, given.replicas)
        held = bench.report(given.seed, [])
        print(
            f"{given.target}: {held.held} of {held.expected} expected claims hold; {held.places} places for a fault",
            flush=True,
        )

        def say(one: Fate) -> None:
            seen = {"noticed": ", ".join(one.claims), "unnoticed": "NOT NOTICED", "equal": "equal: nothing changes"}
            print(f"{one.module}:{one.line} ({one.kind})\n  - {one.before}\n  + {one.after}")
            print(f"  {seen.get(one.outcome, f'stopped: {one.why}')}", flush=True)

        out = given.out or Path(f"faults-{given.target.replace(':', '-')}.jsonl")
        report = try_faults(bench, given.faults, given.seed, out, say)
    except (ConfigError, MissingExtraError) as error:
        print(f"featscope: {error}", file=sys.stderr)
        return 2
    judged = report.count("noticed") + report.count("unnoticed")
    print(
        f"{report.count('noticed')} of {judged} noticed; beside them {report.count('stopped')} stopped the run "
        f"and {report.count('equal')} changed nothing"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
