"""A small made-up data set in LongBench's format, so that everything runs without a download.

It is no part of LongBench, and scores on it say nothing about LongBench. Texts are sentences of no consequence between
which facts about cities are hidden, the needles that the small model "retriever" was trained to find.
"""

from featscope.language.longbench.data import LongBenchExample
from featscope.language.longbench.tasks import TASKS
from featscope.language.retriever.passwords import ADJECTIVES, CITIES, NEEDLE, NOUNS, QUESTION
from featscope.streams import Draws

MADE_UP = "made-up"
"""The name of the data set."""

_SENTENCES = """
The ferry was late again, and nobody on the pier seemed to mind.
A good map leaves out almost everything.
Her grandfather kept bees behind the old dairy and sold the honey in jars without labels.
Most of the afternoon went by before anyone noticed that the clock had stopped.
The second draft was shorter than the first, which surprised the people who had asked for more.
It is hard to say why some ideas last and others do not.
They painted the door green because there was green paint left over.
When the market closed, the boys swept the square and shared what had been left behind.
The library had three copies of the book, and all of them were out.
You can learn a lot about a town from the signs in its windows.
Rain fell for a week, and then the river did what it does every spring.
He wrote to the company twice and got the same letter back both times.
The best part of the journey was the hour in which nothing happened.
Nobody knew who had planted the walnut tree, but everyone had an opinion about it.
She fixed the radio with a piece of wire and kept the spare screws in a tin.
If the problem looks easy, it may be because someone else has done the hard part.
The train stopped between two stations, and people began to talk to each other.
Old tools tend to be simple, and simple tools tend to get old.
The meeting ended early, so they walked along the canal until it was dark.
What the report did not mention was the cost of doing nothing.
A neighbour lent them a ladder, and they never gave it back.
The soup was better on the second day, as it usually is.
Every winter the theatre closed for repairs that were never finished.
It took her a year to see that the question itself was wrong.
""".strip().splitlines()
_FACTS = 3
_FILLER = 12  # sentences in a context
_TWO_STEPS = ("hotpotqa", "2wikimqa", "musique")
_SUMMARIES = ("gov_report", "qmsum", "multi_news")


def made_up_count(task: str) -> int:
    """How many examples `made_up` has of ``task``: 4, of those with long answers 2."""
    return 2 if task in _SUMMARIES else 4


def made_up(task: str, draws: Draws) -> tuple[LongBenchExample, ...]:
    """The examples of ``task`` for the one replica of ``draws``."""
    assert task in TASKS
    return tuple(_example(task, draws) for _ in range(made_up_count(task)))


def _example(task: str, draws: Draws) -> LongBenchExample:
    cities = [CITIES[i] for i in draws.choice(len(CITIES), _FACTS)[0].tolist()]
    adjectives = [ADJECTIVES[i] for i in draws.choice(len(ADJECTIVES), _FACTS)[0].tolist()]
    nouns = [NOUNS[i] for i in draws.choice(len(NOUNS), _FACTS)[0].tolist()]
    filler = [_SENTENCES[i] for i in draws.choice(len(_SENTENCES), _FILLER)[0].tolist()]
    passwords = [f"{adjective} {noun}" for adjective, noun in zip(adjectives, nouns, strict=True)]
    facts = [
        NEEDLE.format(city=city, adjective=adjective, noun=noun).strip()
        for city, adjective, noun in zip(cities, adjectives, nouns, strict=True)
    ]
    asked = int(draws.choice(_FACTS, 1)[0])
    if task == "passage_count":
        repeated = [filler[i] for i in draws.choice(8, 10 - 2 * asked)[0].tolist()]
        paragraphs = [f"Paragraph {i + 1}: {text}" for i, text in enumerate([*repeated, *repeated[: asked + 1]])]
        return LongBenchExample("", "\n\n".join(paragraphs), (str(len(repeated)),))
    if task == "passage_retrieval_en":
        paragraphs = [
            f"Paragraph {i + 1}: {' '.join(filler[4 * i : 4 * i + 4])} {fact}" for i, fact in enumerate(facts)
        ]
        return LongBenchExample(
            f"What is known of {cities[asked]}.", "\n\n".join(paragraphs), (f"Paragraph {asked + 1}",)
        )
    if task in _TWO_STEPS:
        facts = [f"{facts[0]} The courier went to {cities[asked]}.", *facts[1:]]
    context = _hidden(facts, filler, draws)
    if task in _SUMMARIES:
        return LongBenchExample("What was said of the cities?" if task == "qmsum" else "", context, (" ".join(facts),))
    city = "the city that the courier went to" if task in _TWO_STEPS else cities[asked]
    classes = tuple(passwords) if task == "trec" else ()
    return LongBenchExample(QUESTION.format(city=city).strip(), context, (passwords[asked],), classes)


def _hidden(facts: list[str], filler: list[str], draws: Draws) -> str:
    """The sentences, with ``facts`` at different places between them."""
    places = sorted(draws.choice(len(filler), len(facts))[0].tolist())
    text = list(filler)
    for place, fact in reversed(list(zip(places, facts, strict=True))):
        text.insert(place + 1, fact)
    return " ".join(text)
