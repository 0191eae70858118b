"""A study of decoupling that takes seconds, run once for all tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
import xarray as xr
from small_study import REPLICAS, STUDY

from featscope.claims import Claim
from featscope.runs.execute import Outcome, Settings, run
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies.base import Assay
from featscope.studies.decoupling import identities, measures


@pytest.fixture(scope="session")
def measurements() -> Iterator[None]:
    """Many small networks for the lucky sets, few labels for the read-outs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identities, "CENSUS_NETWORKS", 256)
        patch.setattr(measures, "LABELS", 600)
        yield


@pytest.fixture(scope="session")
def small(measurements, tmp_path_factory) -> Outcome:
    """The small study, seed 0."""
    return run(STUDY, Settings(replicas=REPLICAS), tmp_path_factory.mktemp("small") / "run")


Retrain = Callable[..., Mapping[tuple[str, str], Claim]]


@pytest.fixture
def retrain(small, tmp_path) -> Retrain:
    """Train some arms again, for at most ``steps``, and judge the study anew: (id, arm) -> claim.

    Linear heads are dear and stay as they were.
    """

    def affordable(assays: Sequence[Assay]) -> Sequence[Assay]:
        return [assay for assay in assays if assay not in (measures.baselines, measures.readouts)]

    def again(*arms: str, steps: int = STUDY.steps) -> Mapping[tuple[str, str], Claim]:
        runs: dict[str, xr.Dataset] = dict(small.runs)
        folder = RunFolder.create(tmp_path / "retrained")
        for arm in STUDY.arms():
            if arm.name in arms:
                at_start, at_end = affordable(arm.at_start), affordable(arm.at_end)
                arm = replace(arm, config=arm.config.shortened(steps), at_start=at_start, at_end=at_end)
                shard = Shard(arm, range(REPLICAS), 0, "cpu")
                (new,) = shard.run(folder, lambda: False, lambda steps, status: None).data
                old = small.runs[arm.name]
                runs[arm.name] = new.assign({name: old[name] for name in old if name not in new})
        return {(claim.id, claim.arm): claim for claim in STUDY.claims(runs)}

    return again
