"""Every arm of every study takes a step on a GPU, and measures there what it measures on the processor."""

import pytest
from two_devices import ARMS, differing, measured

from featscope.registry import find


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # after one step much is missing
@pytest.mark.filterwarnings("error:.*does not have a deterministic implementation")
@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_a_step_measures_what_it_does_on_the_processor(name, arm, tmp_path):
    study = find(name)[1]().smallest()
    there = measured(study, study.arm(arm), "cuda", tmp_path / "cuda")
    wrong = differing(study, study.arm(arm), there, tmp_path)
    assert not wrong  # how far apart, and by how much a rounding moves it
