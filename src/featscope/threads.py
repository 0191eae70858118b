"""How many cores there are, and how threads wait.

Replicas are independent, so FeatScope trains shards of them side by side, each with one core. That needs no
barrier inside a step; OpenMP threads that spin at barriers cost a factor of 10 and more when cores are shared
with other work.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from featscope.options import ConfigError
from featscope.system import allowed_cores

FEWEST_SHARED = (
    2**16
)  # weights: with batches of 256, two threads take 1.25 times one's time at half of it, 0.85 at twice


def cores() -> int:
    """Cores this process may use.

    Those of its CPU affinity; no more than a container's limit is worth, nor than ``OMP_NUM_THREADS`` where it is set.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    available = max(1, int(min(available, allowed_cores())))
    wanted = os.environ.get("OMP_NUM_THREADS")
    if wanted is None:
        return available
    if not wanted.isdigit() or int(wanted) < 1:
        raise ConfigError(f"OMP_NUM_THREADS = {wanted!r} is not a whole number >= 1: unset it or correct it.")
    return min(available, int(wanted))


def wait_without_spinning() -> None:
    """Ask OpenMP to sleep at barriers instead of spinning. Has an effect only before torch is imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")


def compute_with_one_thread() -> None:
    """Have this process compute with one thread from now on, in libraries that it loads later, too.

    Those of NumPy, SciPy and scikit-learn take as many threads as there are cores when they are loaded, which many
    workers do only as they look for the first time.
    """
    import torch
    from threadpoolctl import threadpool_limits

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    torch.set_num_threads(1)
    threadpool_limits(1)


@contextmanager
def one_thread_where_small(weights: int) -> Iterator[None]:
    """Compute with one thread where networks have few ``weights``: others wake for longer than such products take."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if weights < FEWEST_SHARED else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
