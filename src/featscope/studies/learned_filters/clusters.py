"""Clusters of filters by a rule in place of a hand: k-means on filters of length 1."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

COUNTS = (2, 3, 4, 5, 6)
"""Numbers of clusters that are tried."""
PICKED = 5
"""Filters of each cluster that a hand may pick: those nearest to its centre."""
_STARTS = 5


class Clusters(NamedTuple):
    """What the rule finds.

    Attributes:
        own: mean cosine of a filter of two clusters with its own centre.
        between: cosine of their centres.
        picked: mean cosine of the `PICKED` filters nearest to each centre with the centre of these alone, over clusters
            that have so many; NaN where none has.
        silhouettes: of `COUNTS` clusters, by cosine; NaN where there are too few filters.
        members: cluster of each filter, of two.
    """

    own: float
    between: float
    picked: float
    silhouettes: Float[np.ndarray, " count"]
    members: Int[np.ndarray, " filter"]


def unit(filters: Float[np.ndarray, "*filter d"]) -> Float[np.ndarray, "*filter d"]:
    """Filters of length 1; what is zero stays so."""
    return filters / np.maximum(np.linalg.norm(filters, axis=-1, keepdims=True), 1e-12)


def clusters(filters: Float[np.ndarray, "filter d"]) -> Clusters:
    """Two to six clusters of ``filters`` by k-means on the sphere, the best of five starts that no chance is in."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    points = unit(filters.astype(np.float64))
    silhouettes = np.full(len(COUNTS), np.nan)
    found = np.zeros(len(points), int)
    for place, count in enumerate(COUNTS):
        if len(points) <= count:
            continue
        members = KMeans(count, n_init=_STARTS, random_state=0).fit_predict(points)
        if len(set(members.tolist())) == count:
            silhouettes[place] = silhouette_score(points, members, metric="cosine")
        found = members if count == COUNTS[0] else found
    centres = unit(np.stack([points[found == side].mean(0) for side in (0, 1)]))
    own = float((points * centres[found]).sum(1).mean())
    nearest = [
        part[np.argsort(-(part @ centre))[:PICKED]]
        for part, centre in zip([points[found == side] for side in (0, 1)], centres, strict=True)
        if len(part) >= PICKED  # the fewer filters there are, the more alike are they with their own mean
    ]
    picked = float(np.mean([(part @ unit(part.mean(0))).mean() for part in nearest])) if nearest else np.nan
    return Clusters(own, float(centres[0] @ centres[1]), picked, silhouettes, found)
