"""What is measured of LongBench's answers, by hand, of tasks with different numbers of examples."""

import pytest

from featscope.language.longbench.benchmark import Benchmark
from featscope.language.methods import Reading
from featscope.streams import Streams

RECIPE = Benchmark("full", Reading(0, 8, 1), "a model", "data", "longbench", ("qasper", "trec"), redact=True)


def test_means_are_of_tasks_and_shares_of_each_prompt(monkeypatch):
    """One example of the first task, two of the second."""
    asked = {
        "score": (100, 50, 0),
        "exact": (1, 1, 0),
        "perfect": (100, 100, 100),
        "task_of": (0, 1, 1),
        "text_of": (0, 1, 1),
        "tokens": (10, 20, 40),
        "kept": (10, 10, 8),
    }

    def ask(example):
        return {name: of[example] for name, of in asked.items()} | {"cut": 0}

    monkeypatch.setattr(Benchmark, "_count", lambda self, task: self.tasks.index(task) + 1)
    monkeypatch.setattr(Benchmark, "asker", lambda self, streams: ask)
    evaluation = RECIPE.build(Streams(0, [0]))
    for step in range(RECIPE.steps):
        evaluation.advance(step)
    found = {name: one.values[0].tolist() for name, one in evaluation.outcomes().items()}
    assert found["task_score"] == [100, 25]
    assert found["task_exact"] == [1, 0.5]
    assert found["mean_score"] == 62.5
    assert found["task_share"] == pytest.approx([1, (1 / 2 + 1 / 5) / 2])
    assert found["compression"] == pytest.approx(28 / 70)
