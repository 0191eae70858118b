"""What the tests of studies share."""

import jaxtyping
import pytest

UNCHECKED = (
    "test_decoupling",
    "test_decoupling_faults",
    "test_imbalance_faults",
    "test_longtail_images_faults",
    "test_prediction_head_images_faults",
    "test_pruning",
    "test_pruning_faults",
)


@pytest.fixture(scope="module", autouse=True)
def _unchecked(request):
    """With planted faults types and shapes are not checked at run time.

    There are thousands of steps, and the same steps without a fault are checked in the tests of the study; those of
    `decoupling`, which has the most arms, train for seconds longer with checks, and its parts have tests of their own.
    """
    faults = request.module.__name__.rpartition(".")[2] in UNCHECKED
    if faults:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    if faults:
        jaxtyping.config.update("jaxtyping_disable", False)
