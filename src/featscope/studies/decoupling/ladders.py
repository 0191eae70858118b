"""Along what `decoupling` grows: the number of features, and input and network with it."""

from featscope.studies.ladder import Ladder

LADDERS = (
    Ladder(
        "data.features",
        (8, 16, 32, 64, 128, 256),
        {
            "lucky-set-size": "value",
            "logit-uniformity-slope": "value",
            "stage1-duration@augmented": "value",
            "singletons-emerge@augmented": "value",
            "no-singletons-without-augmentation@plain": "value",
            "sparse-energy@augmented": "value",
            "firing-matches-feature@augmented": "value",
            "noise-removed@augmented": "ratio",
            "plain-overwhelmed-by-noise@plain": "value",
            "bias-would-grow@augmented": "value",
        },
        pace={
            "data.input_dim": lambda d: 8 * d,
            "learner.width": lambda d: 4 * d,
            "objective.anchors": lambda d: 8 * d,
            "objective.negatives": lambda d: 8 * d,
            "optimizer.lr": lambda d: d / 128,
            "optimizer.weight_decay": lambda d: 0.16 / d,
        },
        arms=("augmented", "plain"),
        symbol="d",
        about="Features occur with probability about 1/d, so the step size grows as d and steps stay: sizes are "
        "compared at equal η t / d. Decay falls as 1/d, which is below the paper's range, d^-1.499 to d^-1.001, up to "
        "d = 32, and within from d = 64 on; batches grow as d, so that each has every feature as often.",
    ),
)
