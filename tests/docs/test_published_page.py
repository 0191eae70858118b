"""The page on published numbers says what `featscope judge` says, of the numbers that are printed."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from featscope.claims import read_table
from featscope.claims.table import AGAINST, COLUMNS
from featscope.cli import main
from featscope.language.longbench.published import PUBLISHED, TABLES
from featscope.studies.contrastive_fine_tuning.published import gains
from featscope.studies.longtail_images.table2 import ACCURACY, GAP, TABLE_2

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "published.md").read_text()
COUNTS = re.findall(r"^\| `featscope (judge docs/tables/[np][^`]+)` \| ([\d |]+) \|$", PAGE, re.M)
NUCLEAR, PRUNING = (ROOT / "docs" / "tables" / f"{name}.csv" for name in ("nuclear-norm", "pruning"))


def judged(capfd, monkeypatch, command: str) -> dict:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), "--json"])
    assert ended.value.code == 0
    return json.loads(capfd.readouterr().out)


def test_both_tables_are_counted():
    assert [command.split()[1] for command, _ in COUNTS] == ["docs/tables/pruning.csv"] * 9 + [
        "docs/tables/nuclear-norm.csv"
    ] * 4


@pytest.mark.parametrize(("command", "said"), COUNTS)
def test_the_counts_are_what_the_command_beside_them_says(capfd, monkeypatch, command, said):
    claims = judged(capfd, monkeypatch, command)["claims"]
    hold = [claim for claim in claims if claim["verdict"] == "holds"]
    parts = ("accuracy", "gap") if "pruning" in command else ("Table 6.1",)
    found = [sum(part in claim["id"] + claim["source"] for claim in hold) for part in parts]
    assert [int(count) for count in said.split(" | ")] == [len(hold), *found, sum(one["after_holm"] for one in hold)]
    assert not any(claim["verdict"] == "fails" for claim in claims)
    assert all(claim["after_holm"] <= (claim["verdict"] == "holds") for claim in claims)


def test_what_the_text_says_of_the_gaps(capfd, monkeypatch):
    narrower = {"cifar10-": 0, "cifar100-10": 0, "cifar100-50": 0, "cifar100-100": 0}
    for command, _ in COUNTS[1:9]:
        for claim in judged(capfd, monkeypatch, command)["claims"]:
            kind, _, row = claim["id"].partition("-")
            if kind == "gap" and claim["verdict"] == "holds":
                narrower[row if row in narrower else "cifar10-"] += 1
    assert narrower == {"cifar10-": 0, "cifar100-10": 0, "cifar100-50": 2, "cifar100-100": 6}


def test_what_the_text_says_of_nuclear_norms(capfd, monkeypatch):
    claims = judged(capfd, monkeypatch, "judge docs/tables/nuclear-norm.csv")["claims"]
    measured = np.array([claim["measured"] for claim in claims]).round(6)
    assert [int((measured > 0).sum()), int((measured == 0).sum()), int((measured < 0).sum())] == [64, 1, 11]
    hold = [claim for claim in claims if claim["verdict"] == "holds"]
    assert all(claim["arm"].startswith("DomainNet") for claim in hold)
    assert {claim["statement"] for claim in hold[1:]} == {"ERM-NU beats ERM", "Mixup-NU beats Mixup"}
    first = hold[0]
    assert (first["arm"], first["source"], round(first["measured"], 6)) == ("DomainNet", "Table 6.1", 2.5)
    assert 0.01 / 76 < 0.00013393 <= first["p_value"] <= 0.00013393 * 1.01 < 0.01 / 10
    needed = [claim["runs_needed"] for claim in claims[:10] if claim["verdict"] == "undecided"]
    assert (min(needed), max(needed), len(needed)) == (10, 913, 9)


def test_the_pruning_table_is_the_studys():
    rows = {row.id: row for row in read_table(PRUNING)}
    assert len(rows) == 12
    for name, accuracy, gap in zip(TABLE_2, ACCURACY, GAP, strict=True):
        if name.startswith("CIFAR"):
            short = name.lower().replace("-lt, ρ ", "-")
            for kind, (without, pruned) in {"accuracy": accuracy, "gap": gap}.items():
                row = rows[f"{kind}-{short}"]
                assert [row.summary.mean, row.summary.error] == list(pruned)
                assert [row.against.mean, row.against.error] == list(without)
                assert row.relation == {"accuracy": ">", "gap": "<"}[kind]


def test_averages_over_domains_are_those_of_the_table_of_data_sets():
    """Up to rounding: typing errors would show."""
    rows = read_table(NUCLEAR)
    assert len(rows) == 76
    for total in rows[:10]:
        domains = [row for row in rows[10:] if (row.statement, row.arm.split(",")[0]) == (total.statement, total.arm)]
        assert len(domains) == (6 if total.arm == "DomainNet" else 4)
        for side in ("summary", "against"):
            mean = np.mean([getattr(row, side).mean for row in domains])
            assert abs(mean - getattr(total, side).mean) <= 0.1 + 1e-9
    assert {(row.summary.n, row.against.n, row.summary.error_is) for row in rows} == {(3, 3, "population-mean")}


def test_every_column_is_explained():
    explained = re.findall(
        r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE.partition("## A table of your own")[2], re.M))
    )
    assert set(explained) >= {*COLUMNS, *AGAINST}
    for path in (NUCLEAR, PRUNING):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert next(csv.reader(lines)) == [*COLUMNS, *AGAINST]


def test_the_examples_run_and_print_what_is_shown(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    claim, rounding = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(claim, "published.md", "exec"), {})
    assert capsys.readouterr().out.startswith("holds (1.8")
    exec(compile(rounding, "published.md", "exec"), {})
    assert capsys.readouterr().out == shown


OF_TERMS = re.findall(r"^\| `featscope (judge docs/tables/contrastive[^`]+)` \| ([\d |]+) \|$", PAGE, re.M)


def test_every_reading_of_contrastive_terms_is_counted():
    assert [command.split()[1] for command, _ in OF_TERMS] == ["docs/tables/contrastive-regularisation.csv"] * 5


@pytest.mark.parametrize(("command", "said"), OF_TERMS)
def test_the_counts_of_contrastive_terms(capfd, monkeypatch, command, said):
    claims = judged(capfd, monkeypatch, command)["claims"]
    tables = [f"Table F.{number}" for number in (5, 6, 7, 8)]
    hold = [claim["source"] for claim in claims if claim["verdict"] == "holds"]
    fail = [claim["arm"] for claim in claims if claim["verdict"] == "fails"]
    assert [int(count) for count in said.split(" | ")] == [len(hold), len(fail), *map(hold.count, tables)]
    assert sum(claim["measured"] < 0 for claim in claims) == 4
    if fail:
        assert fail == ["ImageNet (10 views), 20 %", "CIFAR-10 (100 views), 100 %"]


def test_the_table_of_contrastive_terms_is_that_of_the_study():
    rows = read_table(ROOT / "docs" / "tables" / "contrastive-regularisation.csv")
    assert [round(row.summary.mean - row.against.mean, 2) for row in rows] == gains("F.5 F.6 F.7 F.8")


OTHERS = {
    "snapkv": "SnapKV-{}",
    "all": "All-KV",
    "h2o": "H2O-{}",
    "llmlingua": "LLMLingua-{}",
    "minference": "MInference",
}
"""What begins an id of the table of long prompts, and the row that GemFilter is compared with, at this k."""


def test_gains_on_long_prompts_are_those_of_the_printed_scores():
    lines = (ROOT / "docs" / "tables" / "long-prompts.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    compared = set()
    for row in rows:
        part, k = row["arm"].split(", k = ")
        beginning, its = row["id"].split("-")
        other = OTHERS[beginning].format(its)
        assert its == k
        compared.add((part, other))
        scores = [np.array(PUBLISHED[part][name].scores) for name in (f"GemFilter-{k}", other)]
        gain = scores[0] - scores[1]
        assert (float(row["mean"]), float(row["error"])) == (round(gain.mean(), 3), round(gain.std(ddof=1), 3))
        assert (int(row["n"]), row["error_is"], row["relation"]) == (len(gain), "sample", ">")
        assert part in TABLES[row["source"]]
    parts = (*TABLES["Table 9.1"], *TABLES["Table G.1"])
    assert compared == {(part, name) for part in parts for name in PUBLISHED[part] if "GemFilter" not in name}


def test_what_the_text_says_of_gains_on_long_prompts(capfd, monkeypatch):
    claims = judged(capfd, monkeypatch, "judge docs/tables/long-prompts.csv")["claims"]
    of = {name: [claim for claim in claims if claim["id"].startswith(f"{name}-")] for name in OTHERS}
    alike = of["snapkv"] + of["all"]
    assert [claim["verdict"] for claim in alike] == 20 * ["undecided"]
    assert sum(claim["measured"] > 0 for claim in alike) == 6
    assert (len(claims), [claim["after_holm"] for claim in claims].count(True)) == (30, 0)
    (holds,) = [claim for claim in claims if claim["verdict"] == "holds"]
    assert (holds["id"], holds["arm"]) == ("llmlingua-1024", "mistral-nemo-12b, k = 1024")
    assert [round(one, 1) for one in (holds["measured"], *holds["interval"])] == [21.7, 3.9, 39.6]
    assert [(round(claim["measured"], 1), claim["runs_needed"]) for claim in of["h2o"]] == [
        (2.5, 84),
        (3.1, 64),
        (3.0, 32),
    ]
    assert [claim["measured"] > 0 for claim in of["minference"]].count(True) == 1


DICTIONARY = re.findall(r"^\| ([a-z][^|]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.M)
ROWS = ("network-tangent", "network-random", "structure", "-is-linear-", "-fitted-")


def test_the_counts_of_dictionary_learning(capfd, monkeypatch):
    claims = judged(capfd, monkeypatch, "judge docs/tables/dictionary-learning.csv")["claims"]
    assert len(DICTIONARY) == len(ROWS)
    for row, (_, *said) in zip(ROWS, DICTIONARY, strict=True):
        found = [claim["verdict"] for claim in claims if row in claim["id"]]
        assert [int(one) for one in said] == [len(found), *map(found.count, ("holds", "fails", "undecided"))]
    assert sum(int(of) for _, of, *_ in DICTIONARY) == len(claims)
    measured = {claim["id"]: round(claim["measured"], 6) for claim in claims}
    assert measured["tangent-fitted-80-negative"] == 19.8
    assert measured["tangent-fitted-d-500"] == 2.4
    assert measured["random-fitted-10000-samples"] == 2.7
    assert measured["tangent-is-linear-d-500"] == 86.4


def test_dictionary_learning_has_the_errors_and_seeds_of_the_text():
    rows = read_table(ROOT / "docs" / "tables" / "dictionary-learning.csv")
    sides = [side for row in rows for side in (row.summary, row.against) if side is not None]
    assert {(side.n, side.error, side.error_is) for side in sides} == {(5, 0.5, "sample")}
