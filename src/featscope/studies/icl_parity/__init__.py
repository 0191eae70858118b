"""Parities of two features in a prompt, answered by networks with few or many heads."""

from featscope.studies.icl_parity.study import IclParity

__all__ = ["IclParity"]
