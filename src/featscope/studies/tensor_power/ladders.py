"""Along what `tensor-power` grows: the dimension, by which sequences begin smaller, and how many there are."""

from featscope.studies.ladder import Ladder

LADDERS = (
    Ladder(
        "",
        (4, 8, 16, 32, 64, 128),
        {
            "rival-stays-small": "value",
            "rival-stands-still": "value",
            "lower-bound@large-factors": "value",
            "upper-bound@large-factors": "value",
            "limit-is-a-floor@large-factors": "value",
            "limit-has-a-ceiling@large-factors": "value",
        },
        pace={"start": lambda d: d**-0.5},
        arms=("rivals", "overtaken", "large-factors"),
        symbol="d",
        about="Sequences begin at d^-1/2, as overlaps with random weights in d dimensions do. The recursion is its own "
        "clock: it is followed until it passes A, about d^2 / 4η steps.",
    ),
    Ladder(
        "sequences",
        (4, 8, 16, 32, 64, 128),
        {"rival-stays-small": "value", "rival-stands-still": "value"},
        arms=("rivals", "overtaken"),
        about="What is said of every sequence is said of more and more of them.",
    ),
)
