"""Configs to JSON and back."""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featscope import registry
from featscope.data import SparseCoding
from featscope.options import ConfigError
from featscope.runs.plain import as_read, differences, from_plain, to_plain, unsaid
from featscope.studies.decoupling import Decoupling
from featscope.training import SGD, BiasSchedule, Contrastive, TorchOptimizer
from featscope.views import RandomMask, SameSample


@dataclass(frozen=True)
class Inner:
    size: float = 1.0


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    numbers: tuple[int, ...] = ()
    text: str = ""
    flag: bool = False
    nothing: None = None


studies = st.builds(
    Decoupling,
    data=st.builds(SparseCoding, dictionary=st.sampled_from(["hadamard", "qr", "canonical"]), noise=st.floats(0, 9)),
    objective=st.builds(Contrastive, view=st.sampled_from([RandomMask(), SameSample()])),
    optimizer=st.sampled_from([SGD(), TorchOptimizer("Adam", 0.1)]),
    bias=st.builds(BiasSchedule, reset=st.floats(0, 2), cap_ratio=st.one_of(st.none(), st.floats(0.1, 2))),
    steps=st.integers(1, 10**6),
)
outers = st.builds(
    Outer, st.builds(Inner, st.floats(-9, 9)), st.lists(st.integers()).map(tuple), st.text(), st.booleans()
)


@dataclass(frozen=True)
class Several:
    parts: tuple[Inner, ...] = (Inner(), Inner(2.0))


@given(st.one_of(studies, outers))
def test_there_and_back_through_json(config):
    back = from_plain(json.loads(json.dumps(to_plain(config))))
    assert back == config
    assert type(back) is type(config)


@pytest.mark.parametrize("name", registry.entries())
def test_every_study_can_be_stored_and_read_back(name):
    _, kind = registry.find(name)
    for study in (kind(), kind().smallest()):
        assert from_plain(json.loads(json.dumps(to_plain(study)))) == study


def test_what_cannot_be_stored_is_refused_before_any_work():
    with pytest.raises(ConfigError, match=r"Contrastive.view = .*lambda.* cannot be stored: allowed are") as said:
        to_plain(replace(Decoupling(), objective=replace(Contrastive(), view=lambda x, draws: (x, x))))
    assert (said.value.owner, said.value.field) == ("Contrastive", "view")
    with pytest.raises(ConfigError, match=r"Outer.numbers = .*Path\('x'\) cannot be stored: .* Declare it as a str"):
        to_plain(Outer(numbers=(Path("x"),)))
    with pytest.raises(ConfigError, match=r"a config holds .*Path"):
        to_plain(Path("x"))


def test_a_path_of_bytes_that_are_no_utf_8_is_refused():
    with pytest.raises(ConfigError, match=r"Outer.text = '/data/\\udcff' cannot be stored: .*, strings in UTF-8"):
        to_plain(Outer(text=os.fsdecode(b"/data/\xff")))


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"type": "featscope.data.sparse_coding:Nothing"}, "type = .*Nothing.* is unknown here"),
        ({"type": "builtins:print"}, "type = 'builtins:print' is unknown here"),
        ({"type": "no.such.module:Config"}, "is unknown here"),
        ({}, "type = None is unknown here"),
        ({"type": "featscope.training.optimizers:SGD", "speed": 1.0}, "SGD has no field 'speed'"),
        ({"type": "featscope.training.optimizers:SGD", "lr": -1.0}, "SGD.lr = -1.0 is out of range"),
    ],
)
def test_unknown_classes_fields_and_values_are_errors_of_use(plain, message):
    with pytest.raises(ConfigError, match=message):
        from_plain(plain)


def test_nothing_is_imported_on_a_file_s_word():
    import sys

    assert "this" not in sys.modules
    with pytest.raises(ConfigError):
        from_plain({"type": "this:s"})
    assert "this" not in sys.modules


def test_differences_name_the_field_and_both_values():
    old, new = to_plain(Outer()), to_plain(Outer(inner=Inner(2.0), text="a"))
    assert differences(old, old) == []
    assert differences(old, new) == ["config.inner.size: 1.0 -> 2.0", "config.text: '' -> 'a'"]
    assert differences({"a": 1}, {"b": 1}) == ["config.a: 1 -> None", "config.b: None -> 1"]


@dataclass(frozen=True)
class Mended:
    size: int | None = None
    more: int = 1

    def __post_init__(self) -> None:
        if self.size == 8:
            object.__setattr__(self, "size", None)


def test_a_stored_value_is_read_as_it_is_written_today_and_no_field_is_filled_in():
    stored = to_plain(Mended()) | {"size": 8}
    assert as_read(stored) == to_plain(Mended())
    del stored["more"]
    assert differences(as_read(stored), to_plain(Mended())) == ["config.more: None -> 1"]
    unknown = stored | {"gone": 1}
    assert as_read(unknown) == unknown


def test_no_field_is_filled_in_within_a_tuple_either():
    stored = to_plain(Several())
    del stored["parts"][1]["size"]
    assert as_read(stored) == stored
    assert differences(as_read(stored), to_plain(Several())) != []


def test_options_that_a_stored_config_does_not_have_are_named_with_their_defaults():
    stored = to_plain(Decoupling())
    assert unsaid(stored) == []
    del stored["steps"], stored["data"]["noise"]
    assert unsaid(stored) == [f"--data.noise {SparseCoding().noise}", f"--steps {Decoupling().steps}"]
    del stored["optimizer"]
    assert "--optimizer with its defaults" in unsaid(stored)
    assert unsaid({"type": "elsewhere:Study"}) == unsaid(3) == []
