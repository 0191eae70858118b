"""The benchmarks that `longbench` runs: LongBench, LongBench v2 and InfiniteBench."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from featscope.language.longbench import data, infinitebench, longbench_v2, tasks
from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.tasks import LongBenchTask

SuiteName = Literal["longbench", "longbench-v2", "infinitebench"]


class Suite(NamedTuple):
    """A benchmark.

    Attributes:
        title: its name.
        tasks: name -> prompt, length of answers and metric.
        read: (where from, task) -> its examples.
        hub: its name on the Hub.
    """

    title: str
    tasks: Mapping[str, LongBenchTask]
    read: Callable[[str, str], tuple[LongBenchExample, ...]]
    hub: str


SUITES: Mapping[SuiteName, Suite] = {
    "longbench": Suite("LongBench", tasks.TASKS, data.read_task, data.HUB),
    "longbench-v2": Suite("LongBench v2", longbench_v2.TASKS, longbench_v2.read_task, longbench_v2.HUB),
    "infinitebench": Suite("InfiniteBench", infinitebench.TASKS, infinitebench.read_task, infinitebench.HUB),
}
