"""Training arms of a study without a run around it."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

import xarray as xr

from featscope.claims import Claim
from featscope.runs.folder import RunFolder
from featscope.runs.shard import Shard
from featscope.studies import Study


def trained(study: Study, *arms: str, replicas: int = 1) -> dict[str, xr.Dataset]:
    """What the named arms measure, or all of them; one shard a replica."""
    found = {}
    for arm in study.arms():
        if not arms or arm.name in arms:
            folder = RunFolder.create(Path(mkdtemp()) / "run")
            shards = (Shard(arm, range(replica, replica + 1), 0, "cpu") for replica in range(replicas))
            parts = [shard.run(folder, lambda: False, lambda steps, status: None).data[0] for shard in shards]
            found[arm.name] = xr.concat(parts, "replica")
    return found


def by_name(claims) -> Mapping[tuple[str, str], Claim]:
    """(id, arm) -> claim."""
    return {(claim.id, claim.arm): claim for claim in claims}
