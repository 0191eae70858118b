"""What all tests share: sleeping threads, shapes checked at run time, Hypothesis without chance, all cores in use."""

import gc
import os

gc.disable()  # until all tests are collected: what is made by then stays
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported

from types_at_run_time import install

install("featscope")  # before it is imported

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from featscope.registry import entries
from featscope.threads import cores

settings.register_profile("featscope", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=4_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("featscope")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Each core has a process of tests: threads of NumPy's, SciPy's and scikit-learn's own would only wait for it."""
    import sklearn.cluster  # noqa: F401 - loaded, to be told

    torch.set_num_threads(1)
    threadpool_limits(1)


@pytest.fixture(scope="session")
def small_resnet(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a ResNet of 16 features for images of 32 pixels, as the Hub would have it."""
    transformers = pytest.importorskip("transformers", reason="encoders of the Hub were not tried: no 'language'")
    from hub_encoders import saved

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes))
    return saved(model, tmp_path_factory.mktemp("resnet"), size={"shortest_edge": 32})


WHOLE_RUNS = ("docs", "malformed", "report", "runs", "studies", "testing", "test_cli")
"""Folders and files whose tests train for thousands of steps, three times slower with each call checked.

The parts that they train with are checked in the tests of the parts, and a step of every arm in `test_every_study`.
"""


@pytest.fixture(autouse=True, scope="module")
def _types_are_checked_where_parts_are_tested(request: pytest.FixtureRequest) -> Iterator[None]:
    whole = {request.path.parent.name, request.path.stem}.intersection(WHOLE_RUNS)
    jaxtyping.config.update("jaxtyping_disable", bool(whole))
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_collection_finish() -> None:
    """Have garbage looked for in what tests make alone: a tenth of their time went into objects of imports."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """The process that hands out tests collects none itself."""
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What ``-n auto`` stands for."""
    return cores()


EVERY = 20
"""Of the faults that are planted by a test, one in so many is planted each time; `make test-long` plants all."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--long``: nothing is left for another time."""
    parser.addoption("--long", action="store_true", help="all planted faults, trials and pages")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest first, studies and browsers: no core should wait for one at the end. Some need ``--long``."""
    items.sort(key=lambda item: item.path.parent.name != "studies" and "browser" not in item.path.stem)
    if config.option.long or any("::" in argument for argument in config.args):
        return
    turns: dict[str, int] = defaultdict(int)
    for item in items:
        test = item.nodeid.partition("[")[0]
        planted = "::test_a_fault_" in test
        turns[test] += planted
        if planted and turns[test] % EVERY != 1:
            item.add_marker("long")
    left = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if item not in set(left)]
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file stay together, and so do those of a study: what they share is computed once."""
    from xdist.scheduler import LoadScopeScheduling

    studies = sorted((name.replace("-", "_") for name in entries()), key=len, reverse=True)

    class ByStudy(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if "/gpu/" in file:
                return nodeid  # each takes seconds on one core, and a GPU serves many
            name = file.rpartition("/studies/test_")[2].removesuffix(".py")
            if name.startswith("every_"):
                return "every study"
            return next((study for study in studies if f"{name}_".startswith(f"{study}_")), file)

    config.option.loadscopereorder = False
    return ByStudy(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was skipped, and for want of what."""
    wanting: dict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.getreports("skipped"):
        wanting[str(report.longrepr[2]).removeprefix("Skipped: ")].add(report.nodeid)
    for reason, skipped in wanting.items():
        tests = sum("::" in name for name in skipped)
        what = [f"{tests} test{'s' if tests > 1 else ''}"] if tests else []
        what += [f"all of {name}" for name in sorted(skipped) if "::" not in name]
        terminalreporter.write_line(f"skipped: {', '.join(what)}, {reason}")
    if not terminalreporter.config.option.long:
        terminalreporter.write_line(
            f"left out: whole trials of some studies, {EVERY - 1} of {EVERY} planted faults, most pages (--long)"
        )
