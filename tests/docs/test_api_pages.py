"""The reference has every study and closed form, as it says."""

from pathlib import Path

from featscope import catalogue

ROOT = Path(__file__).parents[2]


def listed(page: str) -> set[str]:
    text = (ROOT / "docs" / "api" / f"{page}.md").read_text(encoding="utf-8")
    return {line.removeprefix("::: ") for line in text.splitlines() if line.startswith("::: ")}


def test_no_study_is_missing():
    known = [one for one in vars(catalogue).values() if isinstance(one, catalogue.Entry)]
    shipped = {one.target.partition(":")[0] for one in known if one is not catalogue.OWN_TRAINING}
    assert len(shipped) > 20
    assert shipped <= listed("studies")


def test_no_closed_form_is_missing():
    files = (ROOT / "src" / "featscope" / "theory").glob("[!_]*.py")
    assert {f"featscope.theory.{file.stem}" for file in files} == listed("theory")
