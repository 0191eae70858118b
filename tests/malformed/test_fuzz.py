"""Options, tables and files at random, by Hypothesis: a few dozen in tests, thousands by ``make fuzz``."""

from contextlib import suppress
from pathlib import Path

import pytest
from any_study import BEYOND, STUDIES, words_of
from calling import call, require_refused_or_begun
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wrong_values import DOUBTFUL, WRONG, Option, options

from featscope.claims import read_table
from featscope.options import ConfigError
from featscope.runs.stored import read_claims, read_environment, read_plan

LONG_RUN = settings.default.max_examples > 1000
pytestmark = pytest.mark.timeout(7200 if LONG_RUN else 120)

few = settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
OPTIONS = {name: list(options(kind())) for name, kind in STUDIES.items()}
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0, 1, -1, 2**31, 2**63, 10**12, 1e-300, 1e300]))
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)  # as a shell can pass


def words_for(option: Option) -> st.SearchStrategy[list[str]]:
    """What follows an option: what its type takes, and what it does not."""
    known = [*WRONG.get(option.kind, ()), *DOUBTFUL[option.kind]]
    one = st.one_of(NUMBERS.map(str), TEXTS, *([st.sampled_from(known)] if known else []))
    return st.lists(one, max_size=4) if option.several else one.map(lambda word: [word])


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Words of a run with one to three options that are anything, and what a message may name."""
    name = draw(st.sampled_from(sorted(STUDIES)))
    chosen = draw(st.lists(st.sampled_from(OPTIONS[name]), min_size=1, max_size=3, unique_by=lambda one: one.typed))
    words = words_of(name, *(option.typed for option in chosen))
    for option in chosen:
        words += [option.typed, *draw(words_for(option))]
    return words, [*(option.typed for option in chosen)]


@few
@given(calls())
def test_options_of_any_study(tmp_path_factory, called):
    words, _ = called
    ended = call(*words, within=tmp_path_factory.mktemp("out"))
    require_refused_or_begun(ended, ["--", "allowed", *BEYOND])


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, int, bytes]]:
    """One to four of: flip, cut, insert and replace, at places that are shares of the length in millionths."""
    place = st.integers(0, 10**6)
    how = st.sampled_from(["flip", "cut", "insert", "replace"])
    return draw(st.lists(st.tuples(how, place, st.binary(min_size=1, max_size=8)), min_size=1, max_size=4))


def damaged(sound: bytes, damage: list[tuple[str, int, bytes]]) -> bytes:
    """``sound`` after all of ``damage``."""
    found = bytearray(sound)
    for how, share, content in damage:
        at = share * len(found) // 10**6
        if how == "flip" and at < len(found):
            found[at] ^= content[0] or 1
        elif how == "cut":
            del found[at : at + content[0] + 1]
        elif how == "insert":
            found[at:at] = content
        elif how == "replace":
            found[at : at + len(content)] = content
    return bytes(found)


SOUND = {
    "config.json": b'{"study": "tensor-power", "seed": 0, "replicas": 2, "device": "cpu", "config": {"type": "a:B", '
    b'"steps": 8}, "shard_size": 1}',
    "environment.json": b'{"python": "3.11.7", "packages": {"torch": "2.6"}, "platform": "p", "processor": "c", '
    b'"device": "cpu", "git_revision": null, "seconds": 1.5, "history": []}',
    "claims.json": b'{"study": "s", "seed": 0, "replicas": 2, "config": {}, "claims": [{"id": "a", "source": "S", '
    b'"statement": "It is.", "arm": "one", "kind": "bound", "relation": "<=", "predicted": 1.0, "measured": 0.5, '
    b'"interval": [0.25, 0.75], "tolerance": 0.0, "expected": true, "verdict": "holds", "n": 2, "values": '
    b"[0.4, 0.6]}]}",
}
TABLE = b"""# Three runs a side.
id,source,statement,arm,mean,error,n,error_is,relation,bound,against_mean,against_error,against_n
sure,Table 1,A beats B,one,2.0,0.05,3,mean,>,0,1.0,0.05,3
alone,Table 2,C is small,,0.5,0.1,,sample,<=,1,,,
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize(
    ("name", "read"),
    [("config.json", read_plan), ("environment.json", read_environment), ("claims.json", read_claims)],
)
@given(damages())
def test_bytes_of_a_json_file(place, name, read, damage):
    (place / name).write_bytes(SOUND[name])
    read(place)  # it is sound
    (place / name).write_bytes(damaged(SOUND[name], damage))
    with suppress(ConfigError):
        read(place)


@given(damages())
def test_bytes_of_a_table(place, damage):
    file = place / "table.csv"
    file.write_bytes(TABLE)
    read_table(file)
    file.write_bytes(damaged(TABLE, damage))
    with suppress(ConfigError):
        for row in read_table(file):
            row.claim.to_json()


@few
@given(damages())
def test_judging_a_table_of_any_bytes(place, damage):
    (place / "table.csv").write_bytes(damaged(TABLE, damage))
    require_refused_or_begun(call("judge", "table.csv", within=place), ["table.csv"])
