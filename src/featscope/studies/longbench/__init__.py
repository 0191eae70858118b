"""LongBench: what methods that drop most of a prompt lose on the tasks of a benchmark."""

from featscope.studies.longbench.study import LongBench

__all__ = ["LongBench"]
