"""The report of a run folder, from what is stored in it."""

from inspect import cleandoc
from pathlib import Path
from typing import Any

from featscope.claims import Claim, how_many_hold
from featscope.options import ConfigError
from featscope.registry import find
from featscope.report.folder import write_report
from featscope.runs.folder import RunFolder
from featscope.runs.plain import differences, from_plain, to_plain
from featscope.studies.base import Study
from featscope.studies.summaries import identities
from featscope.studies.sweep import Sweep


def report_run(directory: Path, study: Study | None = None) -> Path:
    """Draw the figures and the page of a finished run, without training.

    Args:
        directory: the run folder.
        study: what was run; needed only for a study that no package registers.

    Returns:
        the page's path.

    Raises:
        ConfigError: ``directory`` is not the folder of a finished run.
    """
    folder = RunFolder(directory)
    plan, environment = folder.read_json("config.json"), folder.read_json("environment.json")
    runs = folder.read_trajectory()
    claims = [Claim.from_json(claim) for claim in folder.read_json("claims.json")["claims"]]
    if study is None:
        try:
            entry, _ = find(plan["study"])  # loads the study, and so the classes of its config
            study = from_plain(plan["config"])
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"{directory / 'config.json'} is incomplete ({error}): run again with --overwrite"
            ) from None
        source, about = entry.source, entry.summary
    else:
        source, about = "", cleandoc(type(study).__doc__ or "").partition("\n\n")[0]
    if isinstance(study, Sweep):
        about = f"{about}\n\n{study.about}"
    arms = tuple(study.arms())
    try:
        return write_report(
            directory,
            title=plan["study"],
            source=source,
            about=about,
            headline=" ".join(filter(None, (study.headline(runs, claims), how_many_hold(claims)))),
            claims=claims,
            figures=[*study.figures(runs), *identities(claims)],
            facts=_facts(study, plan, environment, {arm.name: arm.about for arm in arms}),
            controls=frozenset(arm.name for arm in arms if arm.role == "control"),
        )
    except KeyError as error:
        raise ConfigError(
            f"{directory / 'trajectory.nc'} lacks {error}: written by another version? Run again."
        ) from None


def _facts(study: Study, plan: dict[str, Any], environment: dict[str, Any], arms: dict[str, str]) -> dict[str, str]:
    changed = differences(to_plain(study.at_defaults()), plan["config"], "")
    facts = {
        "Command": f"featscope {study.command} --seed {plan['seed']} --replicas {plan['replicas']} "
        f"--device {plan['device']}",
        "Options changed from defaults": "; ".join(line.lstrip(".").removeprefix("study.") for line in changed)
        or "none",
        "Arms": "; ".join(f"{name}: {about}" for name, about in arms.items()),
        "Machine": f"{environment['processor']} ({environment['cores']} cores used), {environment['platform']}",
        "Device": environment["device"],
        "Versions": ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
        + f", Python {environment['python']}",
    }
    if environment["git_revision"]:
        facts["Revision"] = environment["git_revision"]
    if environment.get("seconds") is not None:
        facts["Duration"] = f"{environment['seconds']:.0f} s of training and measuring"
    return facts
