"""What ways of reading gave: shares, advice and a picture."""

import json
import re

import pytest
from rich.console import Console

from featscope.language.examples import Example
from featscope.language.tune_results import Answered, Tried, advice, by_task, of_all, picture, store_answers


def ways(*given, of=20):
    """Of each: its name, how many of the first prompts it answers, and seconds to the first and the last token."""
    return [
        Tried(name, 1, 0.1, first, last, tuple(Answered("", float(prompt < right), prompt) for prompt in range(of)))
        for name, right, first, last in given
    ]


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (
            ways(("full", 20, 2.0, 4.0), ("a", 20, 0.1, 2.0), ("b", 19, 0.5, 1.0), ("c", 10, 0.1, 0.2)),
            r"b, layer 1, keep 0.1: right 95% .* token after 0.25 of full attention's time, its last after 0.25\.",
        ),
        (
            ways(("full", 20, 2.0, 4.0), ("a", 20, 3.0, 5.0)),
            r"Full attention is cheaper: .* takes 1.50 of its time to the first token and 1.25 of that to the last\.$",
        ),
        (
            ways(("full", 20, 1.0, 5.0), ("a", 20, 1.02, 3.0)),
            "a, layer 1, .* first token after 1.02 of full attention's time, its last after 0.60",
        ),
        (
            ways(("full", 20, 1.0, 5.0), ("a", 20, 1.5, 5.5), ("b", 20, 0.5, 6.0)),
            r"cheaper: .* a, .* takes 1.50 .* 1.10 of that to the last. The first token of b, .* after 0.50 of",
        ),
        (
            ways(("full", 20, 2.0, 4.0), ("a", 10, 1.0, 2.0)),
            "Full attention: every other way is right less often",
        ),
        (ways(("full", 1, 2.0, 4.0), ("a", 0, 1.0, 2.0)), "Full attention: every .* by more than 5%, or never"),
        (ways(("full", 0, 2.0, 4.0), ("a", 0, 1.0, 2.0)), "the model cannot do this task"),
        (ways(("full", 0, 2.0, 4.0)), "the model cannot do this task"),
        (
            ways(("full", 0, 2, 4), ("a", 0, 1, 1), ("b", 5, 1, 3), ("c", 5, 3, 2), ("d", 4, 1, 1)),
            r"Full attention answers no example right, and c, layer 1, keep 0.1 does 25% \(9% to 49%",
        ),
    ],
)
def test_the_advice_is_the_fastest_to_the_last_token_that_is_as_good(tried, said):
    assert re.search(said, advice(tried, 0.05))


def test_the_picture_shows_both_ends():
    tried = ways(("full", 20, 2.0, 4.0), ("a", 20, 3.0, 2.0))
    first, last = picture(tried).axes
    for axes, ratios in ((first, [1.0, 1.5]), (last, [1.0, 0.5])):
        assert [float(bars.lines[0].get_xdata()[0]) for bars in axes.containers] == ratios


def test_the_picture_shows_shares_with_their_intervals():
    tried = ways(("full", 20, 2.0, 4.0), ("a", 13, 3.0, 2.0))
    assert tried[1].interval == pytest.approx((0.4078, 0.8461), abs=1e-4), "farther down than up"
    half = tried[1]._replace(answers=tuple(one._replace(share=one.share or 0.5) for one in tried[1].answers))
    for axes, token in zip(picture([tried[0], half]).axes, ("first", "last"), strict=True):
        assert axes.get_xlabel() == f"time to the {token} token, in full attention's"
        assert [line.get_xdata() for line in axes.lines if line.get_linestyle() == ":"] == [[1.0, 1.0]]
        for way, bars in zip(tried, axes.containers, strict=True):
            assert bars.lines[0].get_ydata() == pytest.approx([way.share])
            (segment,) = bars.lines[2][0].get_segments()
            assert segment[:, 1] == pytest.approx(way.interval)


@pytest.mark.parametrize(
    ("of", "right", "said"),
    [
        (20, 20, "Of 20 prompts it loses 0 that full attention answers, and may lose up to 17% (at 95 %): too few"),
        (20, 19, "Of 20 prompts it loses 1 that full attention answers, and may lose up to 25% (at 95 %): too few"),
        (71, 71, "may lose up to 5% (at 95 %): too few prompts to tell whether it is more than --give-up 5%."),
        (72, 72, "Of 72 prompts it loses 0 that full attention answers, and may lose up to 5% (at 95 %)."),
    ],
)
def test_the_advice_says_what_may_be_lost_and_whether_prompts_are_too_few(of, right, said):
    assert said in advice(ways(("full", of, 2.0, 4.0), ("a", right, 1.0, 2.0), of=of), 0.05)


@pytest.mark.parametrize(
    ("of", "later", "chance"),
    [(20, 0, False), (20, 5, False), (20, 6, True), (20, 14, True), (20, 15, False), (5, 0, True)],
)
def test_the_advice_says_where_the_order_of_two_times_may_be_chance(of, later, chance):
    median = 3.0 if 2 * later > of else 1.0
    full, other = ways(("full", of, 2.0, 2.0), ("a", of, 1.0, median), of=of)
    lasts = (3.0,) * later + (1.0,) * (of - later)
    said = advice([full._replace(lasts=(2.0,) * of), other._replace(lasts=lasts)], 0.05)
    assert said.startswith("Full attention is cheaper") == (median == 3)
    assert (f"earlier than full attention's in {of - later} of {of} prompts: which" in said) == chance
    assert "other way round" not in said
    swapped = advice([full._replace(lasts=lasts), other._replace(lasts=(2.0,) * of)], 0.05)
    assert (f"in {later} of {of} prompts, though medians are the other way round." in swapped) == (not chance)


@pytest.mark.parametrize(("prompts", "others", "chance"), [(6, 1, False), (8, 10, True), (9, 10, False)])
def test_the_fastest_of_many_ways_needs_more_prompts_that_agree(prompts, others, chance):
    """All of them earlier, in ways that are right as often."""
    full, *rest = ways(*[("full", prompts, 2.0, 4.0), *[("a", prompts, 1.0, 2.0)] * others], of=prompts)
    said = advice([full._replace(lasts=(4.0,) * prompts), *(w._replace(lasts=(2.0,) * prompts) for w in rest)], 0.05)
    assert ("may be chance (at 95 %, of 10 ways)." in said) == chance
    assert ("may be chance" in said) == chance


def test_questions_on_one_document_are_no_more_evidence_of_its_time_than_one():
    """Five documents of four questions, all of them earlier."""
    full, other = (
        way._replace(answers=tuple(one._replace(document=i // 4) for i, one in enumerate(way.answers)))
        for way in ways(("full", 20, 2.0, 4.0), ("a", 20, 1.0, 2.0))
    )
    said = advice([full._replace(lasts=(4.0,) * 20), other._replace(lasts=(2.0,) * 20)], 0.05)
    assert "earlier than full attention's in 5 of 5 documents: which of them is earlier may be chance" in said


def test_what_another_way_answers_besides_makes_up_for_no_loss():
    full, other = ways(("full", 19, 2.0, 4.0), ("a", 19, 1.0, 2.0))
    assert "it loses 1 that full attention" in advice([full, other._replace(answers=other.answers[::-1])], 0.05)
    full, other = ways(("full", 60, 2.0, 4.0), ("a", 60, 1.0, 2.0), of=100)
    said = advice([full, other._replace(answers=other.answers[::-1])], 0.05)
    assert "loses 40 that full attention answers" in said
    assert said.endswith("(at 95 %), more than --give-up 5%; others that it gains make up for them.")


def test_questions_on_one_document_may_be_right_or_wrong_together():
    def on_documents(lost: int) -> Tried:
        made = tuple(Answered("", float(document >= lost), document) for document in range(20) for _ in range(4))
        return Tried("a" if lost else "full", 1, 0.1, 1.0, 2.0 - 0.1 * lost, made)

    full, other = on_documents(0), on_documents(2)
    assert (full.of, full.prompts, other.right) == (80, "80 prompts on 20 documents", 72)
    alone = ways(("a", 72, 1.0, 2.0), of=80)[0]
    assert alone.prompts == "80 prompts"
    low, high = other.interval
    assert low < alone.interval[0] - 0.05, "two of twenty documents"
    assert high > alone.interval[1]
    assert "Of 80 prompts on 20 documents it loses 0 that" in advice([full, full._replace(last=1.0)], 0.05)
    worse = [full._replace(last=3.0), other._replace(last=1.0)]
    assert "loses 8 that full attention answers, and may lose up to 34% (at 95 %): too few" in advice(worse, 0.1)
    one = full._replace(answers=full.answers[:4])
    assert one.interval == (0.0, 1.0), "one document says nothing of others"


def test_a_way_that_is_worse_by_just_what_may_be_given_up_is_advised():
    assert advice(ways(("full", 4, 2.0, 4.0), ("a", 3, 1.0, 2.0)), 0.05).startswith("a, layer 1")
    assert advice(ways(("full", 4, 2.0, 4.0), ("a", 2, 1.0, 2.0)), 0.05).startswith("Full attention: every other")


EXAMPLES = [Example("one?", ("1",), "numbers"), Example("A?", ("a",), "letters"), Example("two?", ("2",), "numbers")]
SAID = {"full": ("1", "a", "3"), "a": ("1", "b", "2")}
TRIED = [
    Tried(
        name,
        None,
        None,
        1.0,
        2.0,
        tuple(Answered(said, one.share(said), i) for i, (one, said) in enumerate(zip(EXAMPLES, said, strict=True))),
    )
    for name, said in SAID.items()
]


def test_a_task_has_its_own_share():
    full, other = TRIED
    assert (full.of_task(EXAMPLES, "numbers").share, full.of_task(EXAMPLES, "letters").share) == (0.5, 1.0)
    assert (other.of_task(EXAMPLES, "numbers").share, other.of_task(EXAMPLES, "letters").share) == (1.0, 0.0)
    assert other.of_task(EXAMPLES, "numbers").first == other.first


def test_every_way_is_shown_on_each_task_with_parts_of_answers():
    half = TRIED[1]._replace(answers=(Answered("1", 0.5, 0), *TRIED[1].answers[1:]))
    table = by_task([*TRIED, half], EXAMPLES, ["numbers", "letters"])
    assert [column.header for column in table.columns] == ["task", "prompts", "way of reading", "right", "parts"]
    tasks, counts, ways, right, parts = ([*column.cells] for column in table.columns)
    assert tasks == ["numbers"] * 3 + ["letters"] * 3
    assert counts == ["2"] * 3 + ["1"] * 3
    assert ways == ["full", "a", "a"] * 2
    assert [cell.split()[0] for cell in right] == ["0.50", "1.00", "0.50", "1.00", "0.00", "0.00"]
    assert parts == ["0.50", "1.00", "0.75", "1.00", "0.00", "0.00"]


def test_names_of_ways_are_whole_where_a_terminal_is_narrow(capsys):
    Console(width=80).print(of_all(ways(("full", 20, 2.0, 4.0), ("promptdistill-of-mine", 20, 0.1, 2.0))))
    rows = [line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert "promptdistill-of-mine,layer1" in "".join(rows).replace(" ", "")


def test_names_of_tasks_are_shown_as_they_are_written(capsys):
    tasks = ["math [/INST]", "qa [hard]"]
    examples = [one._replace(task=task) for one, task in zip(EXAMPLES, [*tasks, tasks[0]], strict=True)]
    Console(width=120).print(by_task(TRIED, examples, tasks))
    out = capsys.readouterr().out
    assert all(out.count(task) == 2 for task in tasks)


def test_answers_are_stored_for_a_person_to_read_or_without_a_word_of_theirs(tmp_path):
    store_answers(tmp_path / "said.jsonl", TRIED, EXAMPLES, redact=False)
    found = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [(one["example"], one["way"], one["said"], one["right"], one["share"]) for one in found][-2:] == [
        (3, "full", "3", False, 0.0),
        (3, "a", "2", True, 1.0),
    ]
    assert found[-1]["wanted"] == ["2"]
    assert found[-1]["prompt"] == "two?"
    store_answers(tmp_path / "said.jsonl", TRIED, EXAMPLES, redact=True)
    left = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert {tuple(one) for one in left} == {("example", "task", "way", "right", "share")}
    assert [tuple(one.values()) for one in left] == [
        (1, "numbers", "full", True, 1.0),
        (1, "numbers", "a", True, 1.0),
        (2, "letters", "full", True, 1.0),
        (2, "letters", "a", False, 0.0),
        (3, "numbers", "full", False, 0.0),
        (3, "numbers", "a", True, 1.0),
    ]


def test_all_that_is_wanted_is_stored_beside_what_was_said(tmp_path):
    several = [one._replace(answers=(*one.answers, "b"), task="") for one in EXAMPLES]
    store_answers(tmp_path / "said.jsonl", TRIED, several, redact=False)
    stored = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [one["wanted"] for one in stored[::2]] == [["1", "b"], ["a", "b"], ["2", "b"]]
    assert {one["task"] for one in stored} == {""}
