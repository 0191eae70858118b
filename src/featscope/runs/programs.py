"""How many programs the points of an arm run as, and why."""

from math import prod

from featscope.axes import points
from featscope.runs.execute import Settings
from featscope.streams import Streams
from featscope.studies.base import Arm
from featscope.training.stack import apart, together


def programs(arm: Arm, settings: Settings) -> str:
    """In words, for an arm with axes: points that differ in numbers run as one program, others apart.

    Args:
        arm: an arm with axes. Each of its points is built, for one replica; networks without a replica axis, which may
            be large, are not.
        settings: seed and device.
    """
    count = prod(len(axis.values) for axis in arm.over)
    if count == 1:
        return "1 point runs as one program."
    if not arm.recipe.replica_axis:
        return f"{count} points run as {count} programs: each is a network of its own, without a replica axis."
    built = [
        (at, recipe, recipe.build(Streams(settings.seed, range(1), settings.device)))
        for at, recipe in points(arm.recipe, arm.over)
    ]
    experiments = [experiment for *_, experiment in built]
    schedules = [(recipe.steps, recipe.probe_every) for _, recipe, _ in built]
    groups = together(experiments, schedules)
    if len(groups) == 1:
        return f"{count} points run as one program."
    program_of = {place: n for n, group in enumerate(groups) for place in group}
    reasons: dict[str, str] = {}
    for axis in arm.over:
        for one, (at, _, _) in enumerate(built):
            others = (two for two in range(one) if _differ_only_in(axis.name, at, built[two][0]))
            split = next((two for two in others if program_of[one] != program_of[two]), None)
            if split is not None:
                same_schedule = schedules[one] == schedules[split]
                why = apart(experiments[one], experiments[split]) if same_schedule else "changes how long it goes on"
                reasons.setdefault(axis.name, why)
                break
    return (
        f"{count} points run as {len(groups)} programs: "
        + "; ".join(f"{name} {why}" for name, why in reasons.items())
        + "."
    )


def _differ_only_in(name: str, one: dict[str, float], other: dict[str, float]) -> bool:
    return {key for key in one if one[key] != other[key]} == {name}
