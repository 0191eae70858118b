"""Needles, their scores, and the prompts that hide them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_models import word_tokenizer
from tokenizers.processors import TemplateProcessing

from featscope.language.examples import read_examples
from featscope.language.haystack import (
    BUILT_IN,
    Haystack,
    Needle,
    Retrieved,
    exact,
    normalised_score,
    passwords,
    read_texts,
    require_readable,
    score,
    words_of,
)
from featscope.language.in_context import TASKS, load_irrelevant
from featscope.language.in_context.examples import _from_table
from featscope.language.longbench.data import one_file
from featscope.language.retriever.passwords import ADJECTIVES, NOUNS
from featscope.language.retriever.texts import read_essays
from featscope.options import ConfigError
from featscope.streams import Streams

PAPERS = "eat a sandwich and sit in dolores park on a sunny day."


def draws():
    return Streams(0, [0]).at("needle")


def haystack() -> Haystack:
    return Haystack(word_tokenizer(), ["w10 w11 w12 w13. w14 w15 w16 w17. w18 w19 w20 w21."])


def test_a_perfect_answer_to_the_papers_question_scores_eleven_twelfths():
    assert score(PAPERS, PAPERS) == pytest.approx(11 / 12)
    assert normalised_score(PAPERS, PAPERS) == 1
    assert score("Eat a sandwich.", PAPERS) == pytest.approx(2 / 12)  # "sandwich." is not "sandwich"
    assert score("", PAPERS) == 0


def test_full_stops_that_do_not_count_are_no_part_of_words_and_stay_in_numbers():
    assert words_of(" blue.Then 4.2. St. Petersburg", full_stops=False).split() == [
        "blue",
        "Then",
        "4.2",
        "St",
        "Petersburg",
    ]
    assert normalised_score(words_of("2.4", full_stops=False), "4.2") == 0
    assert words_of("harbour.", full_stops=True) == "harbour."


def test_passwords_are_of_different_cities():
    found = passwords(draws(), 64)
    assert len({needle.question for needle in found}) == 64
    assert all(needle.answer in needle.text for needle in found)
    assert found == passwords(draws(), 64)
    places = [(ADJECTIVES.index(one), NOUNS.index(other)) for one, other in (needle.answer.split() for needle in found)]
    assert abs(np.corrcoef(places, rowvar=False)[0, 1]) < 0.5, "by four standard errors"


@pytest.mark.parametrize("depth", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("length", [20, 45, 120])
def test_prompts_have_their_length_and_the_needle_its_depth(depth, length):
    asked = Needle(" w50 w51 w52", " w60 w61", "w52")
    other = Needle(" w70 w71", " w80", "w71")
    found = haystack().hide(draws(), length, depth, asked, [other])
    assert found.ids.shape == (1, length)
    ids = found.ids[0].tolist()
    assert ids[0] == 1
    assert ids[-2:] == [60, 61]
    assert [ids[i] for i in found.needle] == [50, 51, 52]
    assert [70, 71] in [ids[i : i + 2] for i in range(length)]
    place = found.needle.start / (length - 2)
    assert abs(place - depth) * (length - 2) <= 5 + 4


def test_other_needles_lie_anywhere():
    asked, others = Needle(" w50", " w60", "w50"), [Needle(f" w{70 + i}", " w80", "w71") for i in range(6)]
    ids = haystack().hide(draws(), 400, 0.0, asked, others).ids[0].tolist()
    places = [ids.index(70 + i) / 400 for i in range(6)]
    assert ids.index(50) == 1
    assert min(places) < 0.4
    assert max(places) > 0.6


def test_needles_do_not_cut_sentences():
    for length in range(57, 61):
        found = haystack().hide(draws(), length, 0.4, Needle(" w50 w51", " w60", "w51"))
        ids = found.ids[0].tolist()
        assert ids[found.needle.start - 1] in (1, 3)  # the unknown "w13." and so on end sentences
        assert ids[-2:] == [3, 60], "the last sentence ends before the question"


def test_sentences_stand_in_an_order_that_is_drawn():
    stack = Haystack(word_tokenizer(), [" ".join(f"w{10 + i} w50." for i in range(30))])
    hidden = [stack.hide(Streams(0, [0]).at("needle", i), 40, 0.0, Needle(" w9", " w8", "w9")) for i in range(3)]
    assert len({tuple(one.ids[0].tolist()) for one in hidden}) == 3


def test_depth_means_something_without_full_stops():
    endless = Haystack(word_tokenizer(), [" ".join(f"w{10 + i % 40}" for i in range(900))])
    needle = Needle(" w50 w51", " w60", "w51")
    starts = [endless.hide(draws(), 512, depth, needle).needle.start for depth in (0, 0.25, 0.5, 0.75, 1)]
    assert starts[0] == 1
    for start, depth in zip(starts, (0, 0.25, 0.5, 0.75, 1), strict=True):
        assert abs(start - depth * 509) <= 33


def test_short_prompts_are_refused_with_the_length_that_would_do():
    with pytest.raises(ConfigError, match="allowed is at least 6"):
        haystack().hide(draws(), 5, 0.5, Needle(" w50 w51 w52", " w60 w61", "w52"))


def test_texts_come_from_a_folder_or_ship_with_the_package(tmp_path):
    assert len(read_texts(BUILT_IN)[0].split()) > 500
    (tmp_path / "one.txt").write_text("Some  text.\nMore.")
    assert read_texts(str(tmp_path)) == ["Some text. More."]
    with pytest.raises(ConfigError, match=r"has no text: allowed is a folder with \.txt files"):
        read_texts(str(tmp_path / "nothing"))


def test_a_first_token_that_opens_a_turn_is_not_put_before_a_text_without_turns():
    plain, chats = word_tokenizer(), word_tokenizer()
    chats.chat_template = "{% for m in messages %}<s> {{ m.content }} </s>{% endfor %}"

    def begins(tokenizer) -> list[int]:
        stack = Haystack(tokenizer, ["w10 w11 w12 w13. w14 w15 w16 w17."])
        found = stack.hide(draws(), 20, 0.0, Needle(" w50 w51", " w60", "w51"))
        assert found.ids.shape == (1, 20)
        assert found.ids[0, list(found.needle)].tolist() == [50, 51]
        return found.ids[0, :2].tolist()

    assert begins(plain) == [1, 50]
    assert begins(chats) == [50, 51]
    chats.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    assert begins(chats) == [1, 50]  # it puts one there itself


def test_a_needle_that_is_not_hidden_leaves_no_trace():
    found = haystack().hide(draws(), 40, 0.5, Needle("", " w60", "w51"))
    assert len(found.needle) == 0
    assert torch.tensor(50) not in found.ids


class Says:
    """Generates some words and keeps some places, whatever it is asked."""

    def __init__(self, words, kept):
        self.words, self.kept = words, kept
        self.model = torch.nn.Linear(1, 1)
        self.model.device = torch.device("cpu")

    def generate(self, input_ids, attention_mask=None, **options):
        new = torch.tensor([haystack().encode(self.words)])
        output = torch.cat([input_ids, new[:, : options["max_new_tokens"]]], 1)
        output.kept = self.kept
        return output


def test_answers_are_scored_and_so_is_what_was_kept_of_the_needle():
    asked = Needle(" w50 w51 w52 w53", " w60", "w52 w53")
    hidden = haystack().hide(draws(), 40, 0.5, asked)
    first = hidden.needle.start
    sets = torch.tensor([[[[first, first + 1]], [[first + 1, 39]]]])  # layer, batch, head, kept
    answered = haystack().answer(Says("w52 w70", sets), hidden, 2)[1]
    assert answered == (0.5, 0.5, False, 3 / 8)
    assert haystack().answer(Says("w52 w53", sets), hidden, 1)[1].score == 0.5  # the second word is not generated
    nothing = haystack().hide(draws(), 40, 0.5, replace(asked, text=""))
    assert haystack().answer(Says("w52", sets), nothing, 2)[1].kept == 0


def test_an_answer_is_exact_if_its_words_stand_side_by_side_in_order():
    assert exact("It is  Amber\nLantern indeed", "amber lantern")
    assert not exact("lantern amber", "amber lantern")
    assert not exact("amber old lantern", "amber lantern")
    assert not exact("amber lanterns", "amber lantern")


@pytest.mark.parametrize("full_stops", [False, True])
def test_full_stops_belong_to_words_where_the_needle_says_so(monkeypatch, full_stops):
    stack = haystack()
    hidden = stack.hide(draws(), 40, 0.5, Needle(" w50", " w60", "w52", full_stops))
    monkeypatch.setattr(type(stack.tokenizer), "decode", lambda *given, **options: "w52.")
    assert stack.answer(Says("w52", torch.zeros(1, 1, dtype=torch.long)), hidden, 1)[1].score == (not full_stops)


def test_a_needle_whose_answer_has_more_tokens_than_are_generated_is_refused():
    says, asked = Says("w52 w53", torch.zeros(1, 1, dtype=torch.long)), Needle(" w50", " w60 w61 w62 w63", "w52 w53")
    require_readable(says, haystack(), asked, 2, draws())
    with pytest.raises(ConfigError, match="new_tokens = 1 is too small: allowed is >= 2, the tokens of the answer"):
        require_readable(says, haystack(), asked, 1, draws())


def test_what_is_quoted_of_a_needle_that_is_not_found_is_wrong(monkeypatch):
    right, wrong = Retrieved(1.0, 1.0, True, 1.0), Retrieved(0.0, 0.0, False, 1.0)
    said = iter([("w52", right), ("w70", wrong), ("w71", wrong)])  # at three depths
    monkeypatch.setattr(Haystack, "answer", lambda *asked: next(said))
    with pytest.raises(ConfigError, match=r"gives 33% of .* \(it says 'w70'\)"):
        require_readable(
            Says("w52", torch.zeros(1, 1, dtype=torch.long)),
            haystack(),
            Needle(" w50 w51 w52", " w60", "w52"),
            2,
            draws(),
        )


def test_the_mark_before_a_text_is_no_text(tmp_path):
    """As editors on Windows write it."""
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.txt").write_bytes(mark + b"Some text.")
    (tmp_path / "b.jsonl").write_bytes(mark + b'{"prompt": "a", "answer": "b"}\n')
    (tmp_path / "c.tsv").write_bytes(mark + b"sentence\tlabel\none\t0\ntwo\t1\nthree\t0\nfour\t1\nfive\t0\nsix\t1\n")
    assert read_texts(str(tmp_path)) == ["Some text."]
    assert read_essays(tmp_path)[1] == ["Some text."]
    assert load_irrelevant(str(tmp_path / "a.txt"), draws(), 1) == ["Some text."]
    assert read_examples(tmp_path / "b.jsonl")[0].prompt == "a"
    found = [*_from_table(TASKS["sst2"], tmp_path / "c.tsv")]
    assert (len(found), found[0].texts) == (6, ("one",))
    (tmp_path / "data.json").write_bytes(mark + b"[]")
    assert one_file(str(tmp_path), "data.json", "a/b")[1] == "[]"


@pytest.mark.parametrize("coding", ["latin-1", "utf-16"])
def test_a_text_of_another_coding_is_named(coding, tmp_path):
    """Characters that are lost would be read as hay."""
    (tmp_path / "a.txt").write_text("Some text.", encoding="utf-8")
    (tmp_path / "b.txt").write_bytes("Some café.".encode(coding))
    with pytest.raises(ConfigError, match=r"haystack: .*b\.txt cannot be read .*allowed is UTF-8 text"):
        read_texts(str(tmp_path))
