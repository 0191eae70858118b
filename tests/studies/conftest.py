"""What the tests of studies share."""

import jaxtyping
import pytest


@pytest.fixture(scope="module", autouse=True)
def _unchecked(request):
    """With planted faults types and shapes are not checked at run time.

    There are thousands of steps, and the same steps without a fault are checked in the tests of the study.
    """
    faults = request.module.__name__.endswith("_faults")
    if faults:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    if faults:
        jaxtyping.config.update("jaxtyping_disable", False)
