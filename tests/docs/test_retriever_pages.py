"""What `python -m benchmarks.retriever` fills is there, and pages say how the model that ships was made."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from benchmarks.marked import DOCS, LONG_PROMPTS
from benchmarks.retriever.runs import STUDIES, other_verdicts
from safetensors import safe_open
from trainings import trainings

from featscope.claims import Claim
from featscope.runs.folder import RunFolder

WEIGHTS = Path(str(files("featscope_retriever") / "weights"))
MADE = {
    "language.md": [],
    LONG_PROMPTS: ["side by side", "ruler", "documents", "of smollm2", "of gemma3", "of qwen"],
    **{f"studies/{name}.md": ["claims", *of.tables] for name, of in STUDIES.items()},
}
MADE["studies/needle.md"] += ["seeds", "shares"]


@pytest.mark.parametrize("page", MADE)
def test_pages_have_a_place_for_each_table(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.findall(r"^<!-- (?!end of )(.+) -->$", text, re.M) == re.findall(r"^<!-- end of (.+) -->$", text, re.M)
    assert {*MADE[page]} == {*re.findall(r"^<!-- end of (.+) -->$", text, re.M)}


@pytest.mark.parametrize("page", ["needle", "gemfilter"])
def test_pages_have_the_commands_that_made_the_model(page):
    text = (DOCS / "studies" / f"{page}.md").read_text(encoding="utf-8")
    stretches = [*trainings(json.loads((WEIGHTS / "training.json").read_text()))]
    of, steps = stretches[0]["recipe"], []
    for stretch in stretches:
        recipe = stretch["recipe"]
        options = [f"--tokens {recipe['tokens']} --minutes {recipe['minutes']:g} --seed {recipe['seed']}"]
        if recipe["stage"]:
            options.append(f"--stage {recipe['stage']}")
        if recipe["processes"] > 1:
            options.append(f"torchrun --nproc-per-node {recipe['processes']} -m featscope.language.retriever.train")
        if "device" in recipe and recipe["device"] != "cpu":
            options.append(f"--device {recipe['device']} --makers {recipe['makers']}")
        assert not [option for option in options if option not in text]
        steps.append(stretch["history"][-1]["step"])
    with safe_open(WEIGHTS / "model.safetensors", "np") as file:
        millions = sum(file.get_tensor(name).size for name in file.keys()) / 1e6  # noqa: SIM118
    assert f"{of['layers']} layers, width {of['width']}, {of['heads']} heads" in text
    assert f"{millions:.1f} million" in text.replace("\n", " ")
    if page == "needle":
        assert not [count for count in steps if f"{count:,} steps" not in text]


def test_only_verdicts_that_differ_are_told(tmp_path):
    def run(folder: str, bound: float) -> Path:
        about = {"source": "Lemma 1", "statement": "$f$.", "kind": "bound", "arm": "a", "expected": True}
        claims = [
            Claim.from_samples([0.9, 1.0, 1.1], ">=", limit, id=id, title=id, **about)
            for id, limit in (("loss-inversion", 0.0), ("sparse-energy", bound))
        ]
        (tmp_path / folder).mkdir()
        RunFolder(tmp_path / folder).write_claims("decoupling", 7, 3, {}, claims, {})
        return tmp_path / folder

    one, same, other = run("one", 0.0), run("same", 0.0), run("other", 2.0)
    assert other_verdicts(one, same) == "Of 2 verdicts 0 differ between two seeds."
    said, _, head, _, row = other_verdicts(one, other).splitlines()
    assert said == "Of 2 verdicts 1 differ between two seeds."
    assert head == "| claim | one | other |"
    assert row.startswith("| `sparse-energy@a` | 1.00<br>")
    assert "holds | " in row
    assert row.endswith("fails |")
