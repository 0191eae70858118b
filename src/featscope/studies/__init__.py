"""Studies: a config, its arms, what is watched, the claims and the figures. One study a module."""

from featscope.studies.base import Arm, Runs, Study, last

__all__ = ["Arm", "Runs", "Study", "last"]
