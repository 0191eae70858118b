"""Methods by name, also those of other packages."""

import re
from types import SimpleNamespace

import pytest
import torch
from small_models import prompt, saved_draft, tiny

from featscope.language import (
    H2O,
    AdaKV,
    AllQueries,
    AttentionWindow,
    Cost,
    Draft,
    FastKV,
    FilterLayer,
    Full,
    GemFilter,
    GemFilterOneRun,
    HeadBudgets,
    LastQueries,
    LayerBudgets,
    Prefill,
    PromptDistill,
    Selected,
    SnapKV,
    SpeculativePrefill,
    methods,
)
from featscope.language.methods import METHODS, PEERS, Listed, Reading
from featscope.options import ConfigError

FIRST = Listed("first tokens", "The first {keep} tokens.", lambda of, model: Prefill(model, FirstTokens(of.keep)))
NOTHING = "no row"
SNAP = LastQueries(40)


class FirstTokens:
    """A selector of another package: the first tokens and the last."""

    keeps_last = True

    def __init__(self, keep):
        self.keep = keep

    def require(self, model):
        pass

    def forced(self):
        return 1

    def spent(self, model, length):
        return 0.0

    def select(self, model, prompt, keep):
        return torch.cat([torch.arange(keep - 1), torch.tensor([prompt.ids.shape[1] - 1])])[None]


def install(site, package, **methods):
    """A package that registers methods, as `pip install` would leave it."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = "\n".join(f"{name} = {value}" for name, value in methods.items())
    (folder / "entry_points.txt").write_text(f"[featscope.prefill]\n{points}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An installed package that registers methods."""
    of = "test_methods:"
    install(tmp_path, "other", first=f"{of}FIRST", odd=f"{of}NOTHING", gone=f"{of}GONE", left="leaves:METHOD")
    (tmp_path / "leaves.py").write_text("raise SystemExit(5)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_another_packages_method_is_built_by_name(site):
    assert set(methods.names()) == {*METHODS, *PEERS, "first", "gone", "left", "odd"}
    of_studies = {"question-kept", "one-run", "middle-row", "largest-row"}
    assert set(methods.offered()) == set(methods.names()) - of_studies
    reading = Reading(1, 10)
    out = reading.build("first", tiny()).generate(prompt(), max_new_tokens=2, do_sample=False)
    assert out.kept.tolist() == [[*range(9), 59]]
    assert reading.about("first") == "The first 10 tokens."
    with pytest.raises(ConfigError, match=r"registered as 'test_methods:NOTHING', is a str: allowed is .*Listed"):
        reading.build("odd", tiny())
    with pytest.raises(ConfigError, match=r"cannot be loaded \(.*GONE.*\): repair or remove"):
        reading.build("gone", tiny())
    with pytest.raises(ConfigError, match=r"'left', registered as 'leaves:METHOD', cannot be loaded \(SystemExit: 5\)"):
        methods.listed("left")


def test_a_name_that_two_packages_use_is_refused_with_both_and_other_methods_are_usable(site, monkeypatch):
    (site / "second").mkdir()
    monkeypatch.syspath_prepend(str(site / "second"))
    install(site / "second", "another", first="another:FIRST", snapkv="another:SNAP", adakv="another:ADA")
    for name, one in (
        ("first", r"first = 'test_methods:FIRST' of the package other"),
        ("snapkv", r"snapkv = 'featscope\.language\.methods:METHODS'"),
        ("adakv", r"adakv = 'featscope\.language\.methods:METHODS'"),
    ):
        with pytest.raises(ConfigError) as refused:
            Reading(1, 10).build(name, tiny())
        said = str(refused.value)
        assert re.match(rf"method '{name}' is that of entry point .*: allowed is one; remove a package, or", said)
        assert re.search(rf"entry point {one}", said)
        assert re.search(rf"entry point {name} = 'another:\w+' of the package another", said)
    assert methods.listed("h2o") is METHODS["h2o"]


def test_what_is_registered_twice_and_leads_to_one_place_is_one_method(site):
    install(site, "again", first="test_methods:FIRST")
    assert methods.listed("first").label == FIRST.label


def test_names_that_nobody_has_are_refused():
    with pytest.raises(ConfigError, match="method = 'nothing' is unknown: allowed is one of full, gemfilter"):
        Reading(1, 10).build("nothing", tiny())


@pytest.mark.parametrize("name", [*METHODS, *PEERS])
def test_every_row_says_whether_a_layer_chooses(name):
    built = Reading(2, 20, 8, draft=saved_draft()).build(name, tiny())
    assert listed_layer(built) == methods.listed(name).by_layer
    assert built.generate(prompt(), max_new_tokens=2, do_sample=False).shape == (1, 62)


@pytest.mark.parametrize("name", [*METHODS, *PEERS])
def test_scores_are_pooled_as_a_reading_says(name):
    built = Reading(2, 20, 8, 7, "max", saved_draft()).build(name, tiny())
    caches = [getattr(built.cache, "cache", built.cache)]
    parts = [part for part in (built.selector, *caches) if getattr(part, "pool", "none") != "none"]
    assert all((part.kernel, part.pool) == (7, "max") for part in parts)
    assert bool(parts) == (name not in ("full", "h2o"))
    assert ("max of 7 neighbours" in Reading(2, 20, 8, 7, "max").about(name)) == bool(parts)
    assert "neighbours" not in Reading(2, 20).about(name)


@pytest.mark.parametrize("name", [name for name in (*METHODS, *PEERS) if name != "full"])
def test_every_row_says_whether_a_cost_can_be_kept_to(name):
    reading, model = Reading(0, Cost(0.9), 4, draft=saved_draft()), tiny()
    if methods.listed(name).by_cost:
        assert 4 < reading.build(name, model).select(prompt()).shape[1] < 60
    else:
        with pytest.raises(ConfigError, match=r"keep = Cost\(share=0\.9\)"):
            reading.build(name, model)


def test_a_smaller_model_chooses_where_a_reading_names_one():
    model, draft = tiny(), tiny(num_hidden_layers=2)
    built = Reading(2, 20, 8, draft=saved_draft()).build("speculative", model)
    expected = SpeculativePrefill(model, draft, 20, 8, pool="avg", kernel=5)
    assert isinstance(built.selector, Draft)
    assert torch.equal(built.select(prompt()), expected.select(prompt()))
    with pytest.raises(ConfigError, match=r"Reading\.draft = None is out of range: allowed is a folder, or a model of"):
        Reading(2, 20, 8).build("speculative", model)
    with pytest.raises(ConfigError, match=r"^draft = '\./nowhere' is no folder"):
        Reading(2, 20, 8, draft="./nowhere").build("speculative", model)


def test_each_method_pools_as_its_paper_does_unless_it_is_said_otherwise():
    asked = SimpleNamespace(model="./a model", kernel=None, pool=None)
    assert methods.pooling_of(asked, "speculative") == (Draft.kernel, Draft.pool) == (13, "avg")
    assert methods.pooling_of(asked, "snapkv") == methods.pooling_of(asked) == (5, "avg")
    asked.kernel = 7
    assert methods.pooling_of(asked, "speculative") == (7, "avg")


def test_what_is_left_out_is_as_in_the_papers():
    model = tiny()
    assert Reading(2, 40, draft=saved_draft()).build("speculative", model).selector.look_ahead == 8
    for built in (AdaKV(model, 40), Reading(2, 40).build("adakv", model), Prefill(model, cache=HeadBudgets(SNAP))):
        assert built.cache == HeadBudgets(LastQueries(40, 32, pool="avg", kernel=5), floor=0.2)
    assert LayerBudgets(SNAP) == LayerBudgets(SNAP, last=0.1)
    assert SnapKV(model, 40).cache == SNAP == LastQueries(40, 32, pool="avg", kernel=5)
    assert H2O(model, 40).cache == AllQueries(40) == AllQueries(40, 32, pool="none", kernel=1)
    for built in (GemFilter(model, 2, 40), PromptDistill(model, 2, 40), GemFilterOneRun(model, 2, 40)):
        assert built.selector == FilterLayer(2, 40, 32, pool="avg", kernel=5, row="last")
    fast = FastKV(model, 2, 40, 35)
    assert (fast.selector, fast.cache) == (AttentionWindow(2, 40, 32, pool="avg", kernel=5), LastQueries(35, 32))


def test_every_part_is_made_of_the_numbers_of_a_reading():
    reading, model = Reading(1, 20, 8, 7, "max", saved_draft()), tiny()
    rule, held = {"pool": "max", "kernel": 7}, LastQueries(20, 8, pool="max", kernel=7)
    built = {name: reading.build(name, model) for name in (*METHODS, *PEERS)}
    parts = {name: (one.selector, one.cache) for name, one in built.items() if name != "speculative"}
    assert parts == {
        "full": (None, Full()),
        "gemfilter": (FilterLayer(1, 20, 0, **rule), Full()),
        "question-kept": (FilterLayer(1, 20, 8, **rule), Full()),
        "middle-row": (FilterLayer(1, 20, 0, **rule, row="middle"), Full()),
        "largest-row": (FilterLayer(1, 20, 0, **rule, row="largest"), Full()),
        "one-run": (FilterLayer(1, 20, 0, **rule), Selected()),
        "promptdistill": (FilterLayer(1, 20, 8, **rule), Selected()),
        "snapkv": (None, held),
        "h2o": (None, AllQueries(20, 8)),
        "adakv": (None, HeadBudgets(held)),
        "fastkv": (AttentionWindow(1, 20, 8, **rule), held),
    }
    chooses = built["speculative"].selector
    assert (chooses.keep, chooses.window, chooses.pool, chooses.kernel) == (20, 8, "max", 7)


def test_the_small_model_has_a_pooling_of_its_own():
    for model, kernel, pool, found in (
        ("retriever", None, None, (17, "max")),
        ("other", None, None, (5, "avg")),
        ("retriever", 5, "avg", (5, "avg")),
        ("other", 7, "none", (7, "none")),
    ):
        assert methods.pooling_of(SimpleNamespace(model=model, kernel=kernel, pool=pool)) == found


def listed_layer(built):
    return isinstance(built.selector, FilterLayer) or getattr(built.selector, "layer", None) is not None


@pytest.mark.parametrize(
    ("keep", "said"), [(64, "64 tokens"), (0.1, "10 % of the tokens"), (Cost(0.5), "as many (at 0.5")]
)
def test_what_a_method_keeps_is_said_in_words(keep, said):
    assert said in Reading(3, keep).about("gemfilter")
