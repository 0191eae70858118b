"""Claims whose verdicts are set by hand, for tests of what a story says of them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


def judged(verdicts: Mapping[str, str]) -> list[Any]:
    """Claims of these names, "id@arm", with these verdicts."""
    return [
        SimpleNamespace(id=id, arm=arm, verdict=verdict)
        for (id, _, arm), verdict in ((key.partition("@"), verdict) for key, verdict in verdicts.items())
    ]
