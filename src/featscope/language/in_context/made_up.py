"""Sentences from small grammars, for runs that need no files: short reviews, and sentences that have nothing to do
with them."""

from collections.abc import Sequence
from math import prod

from featscope.streams import Draws

_SUBJECTS = (
    "the plot", "the acting", "this film", "the ending", "the dialogue", "the music", "its hero", "the first half",
    "the camera work", "this sequel", "the whole cast", "the humour", "the story", "every scene", "the director's cut",
)  # fmt: skip
_VERBS = ("is", "was", "feels", "turned out", "remains", "seems")
_DEGREES = ("", "very ", "truly ", "rather ", "simply ", "surprisingly ")
_PRAISE = (
    "charming", "brilliant", "touching", "delightful", "wonderful", "gripping", "clever", "superb", "moving", "lovely",
    "funny", "beautiful",
)  # fmt: skip
_BLAME = (
    "dull", "awful", "clumsy", "boring", "terrible", "lifeless", "silly", "dreadful", "tedious", "ugly", "painful",
    "pointless",
)  # fmt: skip
_ENDINGS = ("", " from start to end", " even on a small screen", " for once", " as a whole", " to me")

_PEOPLE = ("Maria", "Tom", "Aisha", "Jonas", "Wei", "Olga", "Pedro", "Ruth", "Kofi", "Nina", "Lars", "Yuki")
_RELATIVES = ("uncle", "neighbour", "teacher", "sister", "cousin", "coach", "grandmother", "friend")
_DEEDS = ("bought", "painted", "counted", "carried", "sold", "lost", "packed", "found")
_NUMBERS = ("three", "five", "seven", "nine", "twelve", "fourteen", "twenty", "thirty")
_THINGS = ("pencils", "apples", "boxes", "bricks", "stamps", "marbles", "tiles", "buckets")
_TIMES = ("last week", "on Monday", "in May", "before lunch", "yesterday", "two years ago")


def made_up_sentiment(draws: Draws, count: int) -> list[tuple[str, int]]:
    """``count`` distinct sentences in random order, each with its label: 1 for praise, 0 for blame.

    Args:
        draws: of one replica.
        count: at most 77,760.
    """
    return [
        (f"{subject} {verb} {degree}{judgement}{ending} .", int(judgement in _PRAISE))
        for subject, verb, degree, judgement, ending in _drawn(
            draws, count, (_SUBJECTS, _VERBS, _DEGREES, (*_PRAISE, *_BLAME), _ENDINGS)
        )
    ]


def made_up_irrelevant(draws: Draws, count: int) -> list[str]:
    """``count`` distinct sentences of somebody else's business with a number, in random order.

    They stand for the irrelevant sentences of arithmetic problems (dissertation, Section 5.6.2).

    Args:
        draws: of one replica.
        count: at most 294,912.
    """
    return [
        f"{person}'s {relative} {deed} {number} {things} {time} ."
        for person, relative, deed, number, things, time in _drawn(
            draws, count, (_PEOPLE, _RELATIVES, _DEEDS, _NUMBERS, _THINGS, _TIMES)
        )
    ]


def _drawn(draws: Draws, count: int, parts: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """``count`` distinct combinations."""
    if draws.replicas != 1:
        raise ValueError(f"{draws.replicas} replicas; texts are drawn for one replica at a time")
    made = []
    for place in draws.choice(prod(map(len, parts)), count)[0].tolist():
        words = []
        for part in parts:
            place, chosen = divmod(place, len(part))
            words.append(part[chosen])
        made.append(tuple(words))
    return made
