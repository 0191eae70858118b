"""The report of a run folder, from what is stored in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path

from featscope.claims import Claim
from featscope.options import ConfigError
from featscope.registry import entries, find
from featscope.report.arm_table import arm_tables
from featscope.report.folder import write_report
from featscope.report.page import Content
from featscope.report.provenance import changed_options, command, facts
from featscope.runs.folder import RunFolder
from featscope.runs.plain import from_plain
from featscope.studies import Runs, Study
from featscope.studies.summaries import identities

_TOLD = 4  # changed options that the page names


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
    name = plan["study"]
    source, summary = "", cleandoc(type(study).__doc__ or "").partition("\n\n")[0]
    if study is None:
        try:
            entry, _ = find(name)  # loads the study, and so the classes of its config
            study = from_plain(plan["config"])
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"{directory / 'config.json'} is incomplete ({error}): run again with --overwrite"
            ) from None
        source, summary = entry.source, entry.summary
    try:
        said = content(study, runs, claims)
    except KeyError as error:
        raise ConfigError(
            f"{directory / 'trajectory.nc'} lacks {error}: written by another version? Run again."
        ) from None
    whole = replace(
        said,
        title=name,
        source=source,
        question=study.asks or summary,
        summary=summary,
        command=command(study, plan) if name in entries() else "",
        facts=facts(study, environment),
    )
    return write_report(directory, whole)


def content(study: Study, runs: Runs, claims: Sequence[Claim]) -> Content:
    """What the page says of ``runs`` of ``study``, without where they come from."""
    story = study.story(runs, claims)
    return Content(
        title=study.name,
        question=study.asks,
        found=story.found,
        lede=story.lede,
        headlines=story.headlines,
        claims=claims,
        arms=arm_tables(list(study.arms())),
        figures=[*study.figures(runs), *identities(claims)],
        replicas=next(iter(runs.values())).sizes["replica"],
        changed=_in_words(changed_options(study)),
    )


def _in_words(options: Mapping[str, str]) -> str:
    words = [f"{option.strip('-').replace('-', ' ')} {value}".strip() for option, value in options.items()]
    more = f" and {len(words) - _TOLD} more" if len(words) > _TOLD else ""
    return ", ".join(words[:_TOLD]) + more
