"""What all tests share: sleeping threads, shapes checked at run time, and Hypothesis without chance."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported

from jaxtyping import install_import_hook

install_import_hook("featscope", "types_at_run_time.check")  # before featscope is imported

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("featscope", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("featscope")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
