"""Studies: options, arms, what is watched, claims and figures. One study a module or folder."""

from featscope.studies.axes import Axis
from featscope.studies.base import Arm, Runs, Study, last

__all__ = ["Arm", "Axis", "Runs", "Study", "last"]
