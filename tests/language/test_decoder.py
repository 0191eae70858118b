"""What versions of transformers call a cache."""

from types import SimpleNamespace

import torch

from featscope.language.decoder import cache_argument, cache_of


def test_a_cache_is_given_by_the_name_that_is_asked_for():
    assert cache_argument(lambda ids, cache=None: None) == "cache"
    assert cache_argument(lambda ids, past_key_values=None: None) == "past_key_values"
    assert cache_argument(lambda ids, **others: None) == "past_key_values"


def test_a_cache_is_found_by_either_name():
    assert cache_of(SimpleNamespace(cache=3)) == 3
    assert cache_of(SimpleNamespace(past_key_values=3)) == 3
    assert cache_of(torch.ones(2)) is None
