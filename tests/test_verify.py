"""`featscope verify`: studies one after another, and what of them was expected and does not hold."""

import pytest

from featscope.claims import Claim
from featscope.commands import run as commands
from featscope.registry import find
from featscope.runs.folder import RunFolder
from featscope.studies.decoupling import Decoupling
from in_terminal import call


@pytest.mark.parametrize("strict", [False, True])
def test_verify_names_what_was_expected_and_does_not_hold_and_strict_exits_with_1(capfd, tmp_path, monkeypatch, strict):
    about = {"id": "known", "source": "Lemma 1", "statement": "", "kind": "bound"}
    claims = [
        Claim.from_samples(1.0, ">=", bound, arm=arm, law="exact", **about)
        for arm, bound in {"a": 2.0, "b": 0.0}.items()
    ]
    claims += [Claim.from_samples(1.0, ">=", 2.0, arm="control", expected=False, law="exact", **about)]
    seen = []

    def execute(study, settings, out, again, resume):
        seen.append((study, out, resume))
        if not resume:
            RunFolder.create(out).write_claims("decoupling", 0, 1, {}, claims, {})
            (out / "config.json").touch()
        return 0, []  # what is told is what was kept

    monkeypatch.setattr(commands, "execute", execute)
    words = ["verify", "decoupling", "--out", tmp_path, *(["--strict"] if strict else [])]
    code, out, _ = call(capfd, *words)
    assert code == int(strict)
    assert "expected but not holding: decoupling/known (a)\n" in out
    assert seen == [(Decoupling(), tmp_path / "decoupling", False)]
    assert call(capfd, *words)[0] == int(strict)  # the same words go on with what was interrupted
    assert seen[1:] == [(Decoupling(), tmp_path / "decoupling", True)]


def test_verify_misses_what_is_expected_on_an_arm_that_is_gone(capfd, tmp_path, monkeypatch):
    """Nothing judges it, so that ``claims.json`` says nothing of it."""

    class Renamed(Decoupling):
        def arms(self):
            return [arm for arm in super().arms() if arm.name != "augmented"]

    def execute(study, settings, out, again, resume):
        RunFolder.create(out).write_claims("decoupling", 0, 1, {}, [], {})
        return 0, []

    monkeypatch.setattr(commands, "find", lambda name: (name, Renamed))
    monkeypatch.setattr(commands, "execute", execute)
    code, out, _ = call(capfd, "verify", "decoupling", "--out", tmp_path, "--strict")
    assert code == 1
    assert "decoupling/singletons-emerge (augmented: no such arm)" in out


def test_run_says_which_claim_names_an_arm_that_is_not_there(capfd, tmp_path, monkeypatch):
    class Renamed(Decoupling):
        def arms(self):
            return [arm for arm in super().arms() if arm.name != "literal-bias"]

    entry, _ = find("decoupling")
    monkeypatch.setattr(commands, "find", lambda name: (entry, Renamed))
    monkeypatch.setattr(commands, "execute", lambda *_, **more: (0, []))
    code, out, err = call(capfd, "run", "decoupling", "--out", tmp_path)
    assert (code, out) == (0, "")
    assert "the claim 'literal-schedule-silences' names the arm 'literal-bias', which the study does not have" in err
    assert "'singletons-emerge' names the arm 'literal-bias'" in err  # it must not hold there, which nothing looks at


def test_verify_ends_with_the_code_of_the_study_that_fails_and_runs_no_other(capfd, tmp_path, monkeypatch):
    seen = []

    def execute(study, settings, out, again, resume):
        seen.append(study.name)
        RunFolder.create(out).write_claims(study.name, 0, 1, {}, [], {})
        return (3 if len(seen) == 2 else 0), []

    monkeypatch.setattr(commands, "execute", execute)
    code, out, _ = call(capfd, "verify", "decoupling", "tensor-power", "pruning", "--out", tmp_path, "--strict")
    assert (code, seen) == (3, ["decoupling", "tensor-power"])
    assert "expected but not holding" not in out  # which is of all that were asked for


@pytest.mark.parametrize("named", [True, False])
def test_verify_of_all_studies_tells_of_packages_that_are_broken(capfd, tmp_path, monkeypatch, named):
    seen = []

    def execute(study, settings, out, again, resume):
        seen.append(study.name)
        RunFolder.create(out).write_claims(study.name, 0, 1, {}, [], {})
        return 0, []

    monkeypatch.setattr(commands, "entries", lambda: {"tensor-power": None, "pruning": None})
    monkeypatch.setattr(commands, "broken", lambda: {"walk": "its package 'walk' cannot be loaded"})
    monkeypatch.setattr(commands, "execute", execute)
    code, _, err = call(capfd, "verify", *["pruning"] * named, "--out", tmp_path)
    assert code == 0
    assert seen == (["pruning"] if named else ["tensor-power", "pruning"])
    assert err == ("" if named else "featscope: walk is left out, its package 'walk' cannot be loaded")


def test_verify_names_the_folder_that_it_cannot_use_as_it_is_typed(capfd, tmp_path):
    (tmp_path / "mine").write_text("years of work")
    code, _, err = call(capfd, "verify", "decoupling", "--out", tmp_path / "mine")
    assert code == 2
    assert err.startswith("featscope: --out = ")
    assert "cannot be written" in err


def test_check_of_a_study_that_cannot_be_built_says_why_in_a_line(capfd, monkeypatch):
    class Broken(Decoupling):
        def arms(self):
            return [Undefined]

    entry, _ = find("decoupling")
    monkeypatch.setattr(commands, "find", lambda name: (entry, Broken))
    code, _, err = call(capfd, "check", "decoupling")
    assert code == 2
    assert "decoupling cannot be built: NameError: name 'Undefined' is not defined" in err
    assert "Traceback" not in err
