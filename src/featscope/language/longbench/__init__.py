"""LongBench's English tasks, LongBench v2 and InfiniteBench: prompts, metrics, data; what the dissertation reports."""

from featscope.language.longbench.answer import Answered, answer, room
from featscope.language.longbench.benchmark import Benchmark
from featscope.language.longbench.data import LongBenchExample, read_task
from featscope.language.longbench.made_up import MADE_UP, made_up
from featscope.language.longbench.prompts import Prompted, cut_middle, encode
from featscope.language.longbench.suites import SUITES, Suite, SuiteName
from featscope.language.longbench.tasks import TASKS, LongBenchTask

__all__ = [
    "MADE_UP",
    "SUITES",
    "TASKS",
    "Answered",
    "Benchmark",
    "LongBenchExample",
    "LongBenchTask",
    "Prompted",
    "Suite",
    "SuiteName",
    "answer",
    "cut_middle",
    "encode",
    "made_up",
    "read_task",
    "room",
]
