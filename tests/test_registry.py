"""Studies are found by entry points, those of other packages too."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from featscope import registry
from featscope.catalogue import Entry
from featscope.cli import main
from featscope.options import ConfigError, MissingExtraError
from processes import featscope

THEIRS = '''
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from torch import nn

from featscope.catalogue import Entry
from featscope.claims import STATED, bound
from featscope.options import require
from featscope.studies import Arm, Study, last
from featscope.training import SGD, Measurement, Training
from featscope.training.objectives import Ready

ENTRY = Entry("means", "Gauss 1809 [a]", "Least squares finds the mean [sic].", 0.01, "theirs:Means")


@dataclass(frozen=True)
class Shifted:
    """Normal numbers around a mean.

    Attributes:
        mean: where they are.
    """

    mean: float = 3.0

    def __post_init__(self):
        require(self, "mean", self.mean >= 0, ">= 0")

    def build(self, draws):
        return Source(self.mean)


class Source(nn.Module):
    def __init__(self, mean):
        super().__init__()
        self.mean = mean

    def sample(self, draws, count):
        return SimpleNamespace(x=self.mean + draws.normal(count))


@dataclass(frozen=True)
class Zero:
    """An estimate that begins at 0."""

    def build(self, source, draws):
        return Estimate(draws.replicas)


class Estimate(nn.Module):
    def __init__(self, replicas):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(replicas, 1))


@dataclass(frozen=True)
class Squares(Ready):
    """Mean squared error."""

    def __call__(self, learner, source, draws):
        return (source.sample(draws, 64).x - learner.value).square().mean(-1)


@dataclass(frozen=True)
class Means(Study):
    """Least squares finds the mean.

    Attributes:
        data: the numbers.
        steps: training steps.
        probe_every: steps between looks.
    """

    name = "means"
    data: Shifted = field(default_factory=Shifted)
    steps: int = 60
    probe_every: int = 20

    def arms(self):
        recipe = Training(self.data, Zero(), Squares(), SGD(0.05, 0.0), {}, self.steps, self.probe_every)
        yield Arm("only", recipe, "all there is")

    def watch(self, experiment):
        return {"estimate": Measurement(experiment.learner.value[:, 0], "the estimate")}

    @bound("Article 177", on="only", at_most=0.1, because=STATED)
    def mean_found(self, run):
        """The estimate ends near the mean. Measured: how far $x$ is from it."""
        return abs(last(run, run.estimate) - self.data.mean)
'''


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder as `pip install` would leave it."""
    info = tmp_path / "site" / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[featscope.studies]\nmeans = theirs:ENTRY\n")
    (tmp_path / "site" / "theirs.py").write_text(THEIRS)
    return tmp_path / "site"


def test_a_study_of_another_package_is_listed_run_and_reported(site, tmp_path):
    """Estimates end near the mean with spread 0.02; seed 0 is fixed."""
    code, out, err = featscope("list", "--json", path=site)
    assert code == 0, err
    assert {"means", "decoupling"} <= {entry["name"] for entry in json.loads(out)}
    run = tmp_path / "run"
    code, out, err = featscope("run", "means", "--out", run, "--data.mean", "2", "--replicas", "8", path=site)
    assert code == 0, err
    stored = json.loads((run / "claims.json").read_text())
    assert (stored["study"], stored["replicas"], stored["config"]["data"]["mean"]) == ("means", 8, 2.0)
    (claim,) = stored["claims"]
    assert (claim["id"], claim["source"], claim["verdict"], claim["n"]) == ("mean-found", "Article 177", "holds", 8)
    page = (run / "report.html").read_text()
    assert all(words in page for words in ("mean-found", "Gauss 1809", "The estimate ends near the mean", "<math"))


def test_a_study_of_another_package_is_shown_and_its_options_checked(site, tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(site)
    with pytest.raises(SystemExit) as ended:
        main(["show", "means"])
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    assert "means  Least squares finds the mean [sic].\nGauss 1809 [a]\n" in out
    assert "Article 177; mean-found" in out
    assert "The estimate ends near the mean." in out
    assert "Measured: how far x is from it." in out
    assert "--data.mean = 3.0" in out
    with pytest.raises(SystemExit) as ended:
        main(["run", "means", "--out", str(tmp_path / "run"), "--data.mean", "-1"])
    assert ended.value.code == 2
    assert "--data.mean = -1.0 is out of range" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


class Point:
    """An entry point that loads what it is given."""

    name, value = "x", "x:Y"

    def __init__(self, what) -> None:
        self.what = what

    def load(self):
        if isinstance(self.what, Exception):  # as importing it may
            raise self.what
        return self.what


def register(monkeypatch, what) -> None:
    def found(group, name=None):
        return [Point(what)] if group == "featscope.studies" and name in (None, "x") else []

    monkeypatch.setattr(registry, "entry_points", found)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (ImportError("no module named x"), r"entry point x = 'x:Y' cannot be loaded \(no module named x\)"),
        (AttributeError("Y"), r"entry point x = 'x:Y' cannot be loaded \(Y\)"),
        (ZeroDivisionError("1\n2"), r"cannot be loaded \(ZeroDivisionError: 1 2\)"),
        (int, "entry point x = 'x:Y' is a type: allowed is Entry"),
    ],
)
def test_entry_points_that_lead_nowhere_are_named(monkeypatch, what, message):
    register(monkeypatch, what)
    assert registry.entries() == {}
    (said,) = registry.broken().values()
    assert re.search(message, said)
    assert "\n" not in said
    with pytest.raises(ConfigError, match=message):
        registry.find("x")


@pytest.mark.parametrize("name", ["../../evil", "nul\0", "", 300 * "x", "-x"])
def test_an_entry_whose_name_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"Entry\.name = .* is out of range: allowed is 1 to 100 letters, digits"):
        Entry(name, "", "", 0.0, "")


def test_a_package_that_wants_an_extra_of_ours_hides_no_other(monkeypatch):
    register(monkeypatch, MissingExtraError("Its data", "images"))
    assert registry.entries() == {}
    assert registry.broken() == {"x": "Its data needs the extra 'images': pip install 'featscope[images]'"}
    with pytest.raises(MissingExtraError):
        registry.find("x")


@pytest.mark.parametrize("raises", ["1 / 0", "raise SystemExit(5)", "import nothing_there", "def ("])
def test_a_package_that_raises_on_import_is_listed_as_broken(site, raises):
    (site / "theirs.py").write_text(raises)
    code, out, err = featscope("list", path=site)
    assert (code, err) == (0, "")
    assert "decoupling" in out
    assert "means: broken, entry point means = 'theirs:ENTRY' cannot be loaded (" in out
    code, out, err = featscope("list", "--json", path=site)
    assert [entry["name"] for entry in json.loads(out) if "broken" in entry] == ["means"]
    for words in (["show", "means"], *([["run", "means"], ["check", "means"]] if raises == "1 / 0" else [])):
        code, out, err = featscope(*words, path=site)
        assert (code, err.count("\n"), "Traceback" in err) == (2, 1, False)


def test_a_study_whose_module_raises_is_refused(site, monkeypatch, capfd):
    (site / "theirs.py").write_text(THEIRS.replace("theirs:Means", "broken_one:Means"))
    (site / "broken_one.py").write_text("raise RuntimeError('not\\ntoday')")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)  # of another test
    with pytest.raises(SystemExit) as ended:
        main(["run", "means"])
    assert ended.value.code == 2
    err = capfd.readouterr().err
    assert "study 'means', registered as 'broken_one:Means', cannot be loaded (RuntimeError: not today)" in err
    del sys.modules["theirs"]


def test_a_study_of_its_own_entry_point_is_found_beside_broken_ones(monkeypatch):
    whole = registry.entry_points

    def found(group, name=None):
        return whole(group=group, name=name) if name else [Point(ImportError("no module named x"))]

    monkeypatch.setattr(registry, "entry_points", found)
    assert registry.find("pruning")[0].name == registry.entry("pruning").name == "pruning"
    assert list(registry.broken()) == ["x"]


def beside_ours(monkeypatch, *theirs: tuple[str, str, Entry]) -> None:
    """Register entries under (name, value) beside our own, as another package does."""
    whole, points = registry.entry_points, []
    for name, value, what in theirs:
        points.append(point := Point(what))
        point.name, point.value, point.dist = name, value, SimpleNamespace(name="theirs")

    def found(group, name=None):
        own = list(whole(group=group, name=name) if name else whole(group=group))
        return own + [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", found)


def test_a_name_that_two_packages_use_is_refused_with_both_and_other_studies_are_usable(monkeypatch):
    ours = registry.entry("pruning").target
    beside_ours(monkeypatch, ("pruning", "their:ENTRY", Entry("pruning", "", "", 0.0, "their:Pruning")))
    both = (
        r"study 'pruning' is that of entry point pruning = '[\w.:]+' of the package featscope and entry point "
        r"pruning = 'their:ENTRY' of the package theirs: allowed is one"
    )
    for ask in (registry.entry, registry.find):
        with pytest.raises(ConfigError, match=both):
            ask("pruning")
    assert re.match(both, registry.broken()["pruning"])
    assert "pruning" not in registry.entries()
    assert registry.find("decoupling")[0] == registry.entries()["decoupling"]
    monkeypatch.undo()
    assert registry.entry("pruning").target == ours
    assert registry.broken() == {}


def test_an_entry_point_does_not_take_the_name_of_another_by_what_it_leads_to(monkeypatch):
    ours = registry.entry("pruning")
    alias = Entry("pruning", "", "", 0.0, "their:Pruning")
    new = Entry("new", "", "", 0.0, "their:New")
    beside_ours(monkeypatch, ("a", "a:E", alias), ("b", "b:E", new), ("c", "c:E", new))
    assert registry.entries()["pruning"] == registry.entry("pruning") == ours
    assert "and entry point a = 'a:E' of the package theirs: allowed is one" in registry.broken()["a"]
    assert "new" not in registry.entries()
    with pytest.raises(ConfigError, match=r"study 'new' is that of entry point b = 'b:E' .* entry point c = 'c:E'"):
        registry.entry("new")


def test_what_is_registered_twice_and_leads_to_one_place_is_one_study(monkeypatch):
    entry = Entry("new", "", "", 0.0, "their:New")
    beside_ours(monkeypatch, ("new", "their:ENTRY", entry), ("new", "their:ENTRY", entry))
    assert registry.entry("new") == registry.entries()["new"] == entry


@pytest.mark.parametrize("point", ["own-training", "theirs"])
def test_the_name_of_own_trainings_is_taken(monkeypatch, point):
    assert "own-training" not in registry.entries() | registry.broken()
    ours = registry.entry("own-training")
    beside_ours(monkeypatch, (point, "their:ENTRY", Entry("own-training", "", "", 0.0, "their:Own")))
    assert "own-training" not in registry.entries()
    assert re.match(
        r"study 'own-training' is that of entry point own-training = 'featscope\.catalogue:OWN_TRAINING' and entry "
        rf"point {point} = 'their:ENTRY' of the package theirs: allowed is one",
        registry.broken()[point],
    )
    assert registry.entry("own-training") is ours


@pytest.mark.parametrize("target", ["featscope.studies.decoupling:Nothing", "featscope.studies.decoupling:Decoupling"])
def test_an_entry_must_lead_to_the_study_of_its_name(monkeypatch, target):
    register(monkeypatch, Entry("other", "", "", 0.0, target))
    with pytest.raises(ConfigError, match="allowed is a Study whose `name` is 'other'"):
        registry.find("other")


@pytest.mark.parametrize("name", registry.entries())
def test_our_own_studies_are_found_under_their_names(name):
    entry, kind = registry.find(name)
    assert entry.name == kind.name == name
    assert kind.statements()
    assert (
        kind.__module__ == f"{entry.target.partition(':')[0]}.study"
        or kind.__module__ == entry.target.partition(":")[0]
    )


def test_unknown_studies_are_refused_with_those_there_are():
    with pytest.raises(
        ConfigError,
        match="STUDY = 'nothing' is unknown: allowed is one of attention-circuits, ",
    ):
        registry.find("nothing")
    with pytest.raises(
        ConfigError,
        match="STUDY = 'nothing' is unknown: allowed is one of attention-circuits, ",
    ):
        registry.entry("nothing")


def test_of_a_misspelt_study_the_nearest_is_named():
    with pytest.raises(ConfigError, match="STUDY = 'tensorpower' is unknown: did you mean tensor-power"):
        registry.entry("tensorpower")
