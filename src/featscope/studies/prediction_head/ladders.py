"""Along what `prediction-head` grows: the dimension of a patch."""

from featscope.studies.ladder import Ladder

LADDERS = (
    Ladder(
        "data.input_dim",
        (32, 64, 128, 256, 512, 1024),
        {
            "collapse-without-head@no-head": "value",
            "neurons-correlate": "value",
            "head-rescues": "value",
            "diverse-neurons-decorrelate": "ratio",
            "optimum-value": "difference",
            "loss-cannot-see-collapse": "value",
            "four-phases": "value",
            "noise-falls-before-weak-is-learned": "value",
            "substitution": "value",
            "head-has-the-sign": "value",
            "others-stand-still": "value",
            "acceleration": "value",
            "peak-of-the-head": "value",
            "rise-and-fall": "value",
            "head-returns-to-identity": "value",
        },
        pace={"duration": lambda d: 100 * d**2},
        arms=("head", "no-head"),
        symbol="d",
        about="The flow is followed for 100 d^2, the default's 10^6 at d = 100, as the first phase takes d^2 (Lemma "
        "B.13); with a fixed duration the share of networks rescued turns down for want of time. Shares are of those "
        "starts that would collapse, fewer than all; where that matters, replicas spread by more than binomials do.",
    ),
)
