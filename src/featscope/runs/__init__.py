"""Run folders: start, store, resume."""

from featscope.runs.execute import Outcome, Settings, run

__all__ = ["Outcome", "Settings", "run"]
