"""Studies: options, arms, what is watched, claims and figures. One study a module or folder."""

from featscope.axes import Axis
from featscope.studies.base import Arm, Runs, Story, Study, farthest, last, looked

__all__ = ["Arm", "Axis", "Runs", "Story", "Study", "farthest", "last", "looked"]
