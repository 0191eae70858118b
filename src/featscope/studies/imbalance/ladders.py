"""Along what `imbalance` grows: the number of features, and the input with it."""

from featscope.studies.ladder import Ladder

LADDERS = (
    Ladder(
        "data.features",
        (8, 16, 32, 64, 128, 256),
        {
            "stage1-identity": "value",
            "stage1-growth-majority": "value",
            "stage1-growth-minority": "value",
            "stage1-duration": "value",
            "growth-ratio-exponential": "value",
            "growth-ratio-linear": "value",
            "growth-ratio-bounded": "value",
            "lucky-census": "value",
            "strong-neurons-are-lucky": "value",
        },
        pace={
            "data.input_dim": lambda d: 12 * d,
            "data.activity": lambda d: 2 / d,
            "data.noise_std": lambda d: 0.15 / d**0.5,
            "objective.pairs": lambda d: 12 * d,
            "optimizer.lr": lambda d: d / 400,
        },
        arms=("stage-one",),
        symbol="d",
        about="A sample holds as many features on average and as much noise at every size, so the step size grows as d "
        "and steps stay: sizes are compared at equal η t / d. Batches grow as d, so that each has every feature as "
        "often.",
    ),
)
