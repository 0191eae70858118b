"""What stands in the place of a part and is none."""

import jaxtyping
import pytest
from small_models import tiny

from featscope.language import FilterLayer, KeepHidden, LastQueries, Prefill, ReadAgain
from featscope.options import ConfigError


class WithoutALast(FilterLayer):
    """A selector of another package that does not say whether the last token is kept."""

    def __getattribute__(self, name):
        if name == "keeps_last":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __dir__(self):
        return [name for name in super().__dir__() if name != "keeps_last"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"selector": LastQueries(16, 8)}, r"selector = LastQueries\(.*Selector, such as FilterLayer"),
        ({"selector": "gemfilter"}, "selector = 'gemfilter' is no selector"),
        ({"selector": WithoutALast(1, 16, 4)}, r"is no selector \(it has no keeps_last\): allowed"),
        ({"selector": FilterLayer(1, 16, 4), "propagation": LastQueries(16, 8)}, "such as ReadAgain"),
        ({"selector": FilterLayer(1, 16, 4), "propagation": KeepHidden}, "propagation = <class .* is no propagation"),
        ({"cache": FilterLayer(1, 16, 4)}, r"cache = FilterLayer\(.* is no cache .*Cache, such as LastQueries"),
        ({"cache": ReadAgain()}, "selector, propagation and cache, in this order"),
    ],
)
def test_a_part_in_the_place_of_another_is_refused(parts, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which refuses them first, in tests alone
    with pytest.raises(ConfigError, match=message):
        Prefill(tiny(), **parts)
