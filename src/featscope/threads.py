"""How many cores there are, and how threads wait.

Replicas are independent, so FeatScope trains shards of them side by side, each with one core. That needs no
barrier inside a step; OpenMP threads that spin at barriers cost a factor of 10 and more when cores are shared
with other work.
"""

import os

from featscope.options import ConfigError


def cores() -> int:
    """Cores this process may use (its CPU affinity, capped by ``OMP_NUM_THREADS`` where that is set)."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
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
