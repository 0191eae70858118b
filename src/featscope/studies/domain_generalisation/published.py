"""What the dissertation prints, and what DomainBed does where it does not say."""

from collections.abc import Mapping, Sequence
from typing import Any

from featscope.claims import Claim, Summary

COLUMNS = ("art_painting", "cartoon", "photo", "sketch")
TABLE_E2 = {
    "erm": ((84.7, 80.8, 97.2, 79.3), 85.5),
    "erm, NU": ((87.4, 79.6, 96.3, 79.0), 85.6),
    "mixup": ((86.1, 78.9, 97.6, 75.8), 84.6),
    "mixup, NU": ((86.7, 78.0, 97.3, 77.3), 84.8),
    "swad": ((89.3, 83.4, 97.3, 82.5), 88.1),
    "swad, NU": ((89.8, 82.8, 97.7, 83.7), 88.5),
    "coral": ((88.3, 80.0, 97.5, 78.8), 86.2),
    "group-dro": ((83.5, 79.1, 96.7, 78.3), 84.4),
}
"""Table E.2: accuracy in each domain of PACS, in percent, and the average that is printed."""
TABLE_61 = {
    "ERM, VLCS": (78.3, 0.3, 77.5, 0.4),
    "ERM, PACS": (85.6, 0.1, 85.5, 0.2),
    "ERM, OfficeHome": (68.1, 0.1, 66.5, 0.3),
    "ERM, TerraInc": (49.6, 0.6, 46.1, 1.8),
    "ERM, DomainNet": (43.4, 0.1, 40.9, 0.1),
    "SWAD, VLCS": (79.8, 0.2, 79.1, 0.1),
    "SWAD, PACS": (88.5, 0.2, 88.1, 0.1),
    "SWAD, OfficeHome": (71.3, 0.3, 70.6, 0.2),
    "SWAD, TerraInc": (52.2, 0.3, 50.0, 0.3),
    "SWAD, DomainNet": (47.1, 0.1, 46.5, 0.1),
}
"""Table 6.1: mean and error with NU, mean and error without."""
TABLES_OF_ALTERNATIVES: Mapping[str, Mapping[str, Sequence[float]]] = {
    "Table 6.3": {"NU": (79.8, 88.5, 47.1), "MIRO": (79.6, 88.4, 47.0), "CORAL": (78.9, 88.3, 46.8)},
    "Table E.6": {
        "NU": (79.8, 88.5, 71.3, 52.2, 47.1),
        "MIRO": (79.6, 88.4, 72.4, 52.9, 47.0),
        "CORAL": (78.9, 88.3, 71.3, 51.0, 46.8),
    },
}
"""What is added to SWAD: accuracy on each data set."""
ROWS = {"3 training domains": 3 * 32, "5 training domains": 5 * 32}
"""Rows of a batch in DomainBed: 32 of each training domain; PACS has 3 and DomainNet 5."""
UNITS = 2048
"""Features of ResNet-50."""
_RUNS = 3


def least_gain(name: str) -> float:
    """Lower end of the 99 % interval of a gain of Table 6.1, its errors read as DomainBed makes them."""
    mean, error, without, its_error = TABLE_61[name]
    one, other = (Summary(m, e, _RUNS, "population-mean") for m, e in ((mean, error), (without, its_error)))
    about: Mapping[str, Any] = {"id": "gain", "source": "Table 6.1", "statement": "NU gains", "kind": "ordering"}
    return Claim.from_summary(one, ">", 0.0, against=other, arm=name, **about).interval[0]


def lead(table: str) -> float:
    """Average of NU less that of the best alternative, in points."""
    rows = {name: sum(values) / len(values) for name, values in TABLES_OF_ALTERNATIVES[table].items()}
    return rows["NU"] - max(value for name, value in rows.items() if name != "NU")
