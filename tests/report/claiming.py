"""A study of a paper with a wrong equation, that trains in milliseconds."""

from dataclasses import dataclass
from pathlib import Path

from featscope.catalogue import Entry
from featscope.claims.statement import bound, identity
from featscope.figures import Curve, Curves, Panel
from swept import Pull

ENTRY = Entry("claiming", "Nobody 2020, Section 2", "Numbers are pulled, and claims made.", 0.01, "claiming:Claiming")
IDLE = Entry("idle", "Nobody 2020, Section 1", "Nobody runs it.", 3, "claiming:Idle")


def installed(folder: Path) -> str:
    """A folder that makes both studies known where it is on the path."""
    about = folder / "claiming-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: claiming\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[featscope.studies]\nclaiming = claiming:ENTRY\nidle = claiming:IDLE\n")
    return str(folder)


@dataclass(frozen=True)
class Claiming(Pull):
    """Numbers are pulled, and claims made."""

    name = "claiming"

    @bound("Theorem 2.2", on="pulled", not_on="other", at_most=10.0, because="Bound: <b>loose</b>.")
    def stays_near(self, run):
        r"""Numbers stay near.

        No $|x - t|$ is above 10. Measured: mean distance.
        """
        return run.distance.isel(step=-1)

    @identity("Lemma 2.1", not_on="pulled", equals=3.0, within=0.0, because="Tolerance: none.", law="exact")
    def two_and_two_are_three(self, run):
        """Two and two are three."""
        return 4.0

    @identity(
        "derived, for Lemma 2.1",
        on="pulled",
        equals=4.0,
        within=0.0,
        because="Tolerance: none.",
        law="exact",
        corrects="two-and-two-are-three",
    )
    def two_and_two_are_four(self, run):
        """Two and two are four."""
        return 4.0

    def figures(self, runs):
        """One curve."""
        steps = runs["pulled"].step.values
        curve = Curve("pulled", steps, runs["pulled"].distance.mean("replica").values)
        return [Curves("way", "How far", "A curve.", [Panel("How far", "step", "m", [curve])], claims=("stays-near",))]


@dataclass(frozen=True)
class Idle(Pull):
    """Nobody runs it."""

    name = "idle"

    @bound("Section 1.1", not_on="pulled", at_most=0.0, because="Bound: zero.")
    def stands_still(self, run):
        """Numbers stand still."""
        return run.distance.isel(step=-1)
