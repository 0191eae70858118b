"""The report of a run folder, from what is stored in it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from typing import Any
from warnings import warn

from featscope.claims import Claim, Statement, how_many_hold
from featscope.figures import Table
from featscope.options import ConfigError
from featscope.registry import entries, find, find_of_run
from featscope.report.arm_table import arm_tables
from featscope.report.folder import write_report
from featscope.report.page import Content
from featscope.report.provenance import changed_options, command, facts
from featscope.report.unfinished import NAME as UNFINISHED
from featscope.report.unfinished import report_unfinished
from featscope.runs.diverged import shortcomings
from featscope.runs.environment import mixed
from featscope.runs.folder import RunFolder
from featscope.runs.judging import changes
from featscope.runs.lock import locked
from featscope.runs.older import as_far_as_measured
from featscope.runs.plain import from_plain
from featscope.runs.stored import read_claims, read_environment, read_plan, read_trajectory, with_texts
from featscope.runs.unfinished import is_unfinished
from featscope.studies import Runs, Study
from featscope.studies.judged_sweep import JudgedSweep
from featscope.studies.scaling import ScalingStudy
from featscope.studies.summaries import identities, over_steps

_UNREADABLE = (
    ConfigError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_TOLD = 4  # changed options that the page names


def report_run(directory: Path | str, study: Study | None = None) -> Path:
    """Draw the figures and the page of a run, without training.

    Of one that is not done, ``unfinished.html`` says what is there so far; a run may be going on in the folder.

    Args:
        directory: the run folder.
        study: what was run; needed only for a study that no package registers.

    Returns:
        the page's path.

    Raises:
        ConfigError: ``directory`` is not the folder of a run, or a run holds it that was finished before.
    """
    directory = Path(directory)
    plan = read_plan(directory)  # says so where there is no such folder
    if is_unfinished(directory):
        return report_unfinished(directory, study)
    with locked(directory, "DIR"):
        RunFolder(directory).sweep()
        page = write_report(directory, stored_content(directory, plan, study))
        (directory / UNFINISHED).unlink(missing_ok=True)  # of when it was on its way
        return page


def stored_content(directory: Path, plan: Mapping[str, Any], study: Study | None = None) -> Content:
    """What the page says of a run, from what is stored in its folder; ``plan`` is its ``config.json``.

    Raises:
        ConfigError: a file is missing or damaged, or no package registers its study and ``study`` is not given.
    """
    environment = read_environment(directory)
    claims, runs = read_claims(directory), read_trajectory(directory)  # what takes long comes last
    name = plan["study"]
    if study is not None:
        summary = cleandoc(type(study).__doc__ or "").partition("\n\n")[0]
        said = replace(_as_read(directory, study, runs, claims, environment), title=name, summary=summary)
        registered = name in entries() and find(name)[1] is type(study)
        again = command(study, plan) if registered else ""
        said = replace(said, question=said.question or summary, command=again)
        return _computed_by(said, study, environment)
    entry, kind = find_of_run(plan)  # loads the study, and so the classes of its config
    about = {statement.id: statement for statement in kind.statements()}
    claims = [_in_words_at_least(claim, about.get(claim.id)) for claim in claims]
    try:
        study = from_plain(plan["config"])
        again = command(study, plan)
        said = _as_read(directory, study, runs, claims, environment)
    except _UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"
        warn(f"{name} cannot read {directory}, so its report shows only what is stored ({why})", stacklevel=2)
        study, again, said = kind(), "", _as_stored(runs, claims, why)
    said = replace(said, title=name, source=entry.source, summary=entry.summary, command=again)
    said = replace(said, question=study.asks or entry.summary)
    return _computed_by(said, study, environment)


def _as_read(
    directory: Path, study: Study, runs: Runs, claims: Sequence[Claim], environment: Mapping[str, Any]
) -> Content:
    """What ``study`` says of the run, and whether it would judge it otherwise than what is stored, which is shown."""
    with as_far_as_measured(study, claims, environment):  # figures of sweeps and ladders judge, too
        said = content(study, runs, claims)
    if type(study).tables is not Study.tables:  # texts are in the files of the weights, which may be large
        said = replace(said, tables=[*study.tables(with_texts(directory, runs))], tables_are="Scores and answers")
    try:
        with as_far_as_measured(study, claims, environment):
            changed = changes(claims, list(study.claims(runs)))
    except Exception as error:  # whatever a claim's own code raises
        changed = [f"it cannot judge them at all ({type(error).__name__}: {error})"]
    if not changed:
        return said
    more = f" and {len(changed) - _TOLD} more" if len(changed) > _TOLD else ""
    otherwise = (
        "Claims are shown as they were stored, and the study as it is installed judges some otherwise: "
        f"{'; '.join(changed[:_TOLD])}{more}. To judge all anew, without training: "
        f"featscope judge {shlex.quote(str(directory))}"
    )
    return replace(said, warnings=[*said.warnings, otherwise])


def _computed_by(said: Content, study: Study, environment: Mapping[str, Any]) -> Content:
    changed = mixed(environment)
    warnings = [*said.warnings, changed] if changed else said.warnings
    return replace(said, warnings=warnings, facts=facts(study, environment))


def _in_words_at_least(claim: Claim, statement: Statement | None) -> Claim:
    """The claim as it was stored; if that was before claims had titles, in the words that its statement has now."""
    if statement is None or claim.title:
        return claim
    return replace(
        claim,
        title=statement.title,
        statement=statement.text,
        measures=statement.measured,
        range=statement.range,
    )


def _as_stored(runs: Runs, claims: Sequence[Claim], why: str) -> Content:
    """What can be said of a run that its study cannot read: another version made it, or the study has a fault."""
    return Content(
        title="",
        found=how_many_hold(claims) or "Of this run nothing was claimed.",
        lede="The study as it is installed cannot read this run: another version made it, or something in it is "
        "broken. "
        "Here is what was stored: its claims with their verdicts, and its measurements over steps. To see more, run it "
        f"again. ({why})",
        warnings=_warnings(runs),
        claims=claims,
        figures=[*over_steps(runs), *identities(claims)],
        replicas=next(iter(runs.values())).sizes["replica"],
        changed="some unknown to this version",
    )


def content(study: Study, runs: Runs, claims: Sequence[Claim]) -> Content:
    """What the page says of ``runs`` of ``study``, without where they come from."""
    story = study.story(runs, claims)
    over = study if isinstance(study, JudgedSweep) else None
    return Content(
        title=study.name,
        question=study.asks,
        found=story.found,
        lede=story.lede,
        headlines=story.headlines,
        warnings=_warnings(runs),
        claims=claims,
        arms=[] if over else arm_tables(list(study.arms())),
        controls=_controls(over, claims) if over else (),
        tables=_over_points(over, claims) if over else [],
        tables_are="Where it holds" if over else "What differs",
        figures=[*study.figures(runs), *identities(claims)],
        replicas=next(iter(runs.values())).sizes["replica"],
        changed=changed_in_words(study),
    )


def _controls(study: JudgedSweep, claims: Sequence[Claim]) -> set[str]:
    """Names of the points of controls."""
    own = {arm.name for arm in study.shown_arms() if arm.role == "control"}
    return {claim.arm for claim in claims if claim.arm.partition("@")[0] in own}


def changed_in_words(study: Study) -> str:
    """Options that are not at their defaults, for which expectations were made; empty if all are."""
    return _in_words({**_beside_data(study), **_along(study)})


def _along(study: Study) -> Mapping[str, str]:
    """Options that vary, and so are not at their defaults."""
    if isinstance(study, ScalingStudy):
        return {study.ladder.axis or study.ladder.name: "along a ladder"}
    return {axis.option: "along an axis" for axis in study.axes} if isinstance(study, JudgedSweep) else {}


def _over_points(study: JudgedSweep, claims: Sequence[Claim]) -> list[Table]:
    """At how many points each claim has each verdict; and what the arms are."""
    headings, rows = study.table(claims)
    arms = study.shown_arms()
    told = [[arm.name, arm.label or arm.name, arm.role, arm.about] for arm in arms]
    return [Table("Points with each verdict", headings, rows), Table("The arms", ["arm", "", "role", ""], told)]


def _beside_data(study: Study) -> Mapping[str, str]:
    """Options that are not at their defaults, for which expectations were made."""
    data = {f"--{option.replace('_', '-')}" for option in study.data_options}
    return {option: value for option, value in changed_options(study).items() if option not in data}


def _warnings(runs: Runs) -> list[str]:
    told = shortcomings(runs)
    return [told] if told else []


def _in_words(options: Mapping[str, str]) -> str:
    words = [f"{option.strip('-').replace('-', ' ')} {value}".strip() for option, value in options.items()]
    more = f" and {len(words) - _TOLD} more" if len(words) > _TOLD else ""
    return ", ".join(words[:_TOLD]) + more
