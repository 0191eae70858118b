"""Claims as data: a prediction, a measurement, an interval, and the verdict that follows from them."""

from featscope.claims.claim import Claim
from featscope.claims.family import false_expected, how_many_hold, not_after_holm, worth
from featscope.claims.intervals import LEVEL, Law, interval_of_mean
from featscope.claims.scaling import fitted_exponent
from featscope.claims.statement import (
    COSINE,
    PAIRED,
    POSITIVE,
    ROUNDING,
    SHARE,
    STATED,
    Found,
    Statement,
    bound,
    identity,
    ordering,
    scaling,
)
from featscope.claims.summary import ErrorKind, Summary
from featscope.claims.table import Row, read_table

__all__ = [
    "COSINE",
    "LEVEL",
    "PAIRED",
    "POSITIVE",
    "ROUNDING",
    "SHARE",
    "STATED",
    "Claim",
    "ErrorKind",
    "Found",
    "Law",
    "Row",
    "Statement",
    "Summary",
    "bound",
    "false_expected",
    "fitted_exponent",
    "how_many_hold",
    "identity",
    "interval_of_mean",
    "not_after_holm",
    "ordering",
    "read_table",
    "scaling",
    "worth",
]
