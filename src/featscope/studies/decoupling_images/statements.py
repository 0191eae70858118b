"""What Wen & Li 2021 (arXiv 2105.15134) state about images, and the measurement that stands for it here.

The paper shows pictures and gives no number: every measure below is our reading of a word such as "sparser".
"""

from featscope.claims import Statement

_ONE_METRIC = 'The paper does not define "sparser".'
_ADDED = "The random start, two thirds chromatic, holds nearly all of the filters' energy after a short training."
_GROWING = (
    "The difference begins with the other sign and grows while the default run trains, which is short: "
    "four replicas leave it undecided there."
)

STATEMENTS = (
    Statement(
        "filters-move-without-augmentation",
        "Message 1, Figure 2",
        "Without augmentation the weights do not stay at their random initialisation: ||W - W(0)|| / "
        "||W(0)|| of the first layer.",
        "bound",
    ),
    Statement(
        "no-augmentation-learns-no-signal",
        "Message 1, Figure 2",
        "Without augmentation the learned features are of no use: linear-probe accuracy minus that of the "
        "untrained network.",
        "ordering",
    ),
    Statement(
        "crop-learns-some-semantics",
        "Message 2",
        "Crop-resize alone helps to learn some semantic features: linear-probe accuracy minus the higher of "
        "that without augmentation and that of the untrained network.",
        "ordering",
        note="At this size there is reason for doubt: two crops of a photograph share its colours, and a "
        "network that has had few steps knows them by that first.",
    ),
    Statement(
        "crop-keeps-colour-features",
        "Message 2, Message 3",
        "With crop-resize alone the representation keeps a mixture of colours that colour distortion "
        "removes: R² of a linear read-out of the image's mean colour, difference between the two.",
        "ordering",
    ),
    Statement(
        "crop-keeps-colourful-filters",
        "Message 2, Message 3, Figure 2",
        "With crop-resize alone the first-layer filters stay more colourful than with colour distortion: "
        "difference of the mean chromatic share of their energy.",
        "ordering",
    ),
    Statement(
        "crop-learns-colourful-filters",
        "Message 2, Message 3, Figure 2",
        "The same of what training added, W - W(0): its mean chromatic share with crop-resize alone minus with colour "
        "distortion.",
        "ordering",
        note=_ADDED,
    ),
    Statement(
        "colour-makes-contrastive-sparser",
        "Message 3, Figure 4",
        "Colour distortion makes firing sparser: fraction of active units in the layers above the first, "
        "with crop-resize alone minus with colour distortion.",
        "ordering",
        note=f"{_ONE_METRIC} {_GROWING}",
    ),
    Statement(
        "colour-makes-contrastive-sparser-hoyer",
        "Message 3, Figure 4",
        "The same by Hoyer's measure, which also weighs how much units fire: with colour distortion minus "
        "with crop-resize alone.",
        "ordering",
        note=f"{_ONE_METRIC} {_GROWING}",
    ),
    Statement(
        "no-augmentation-fires-densely",
        "Section 1.1, Figures 3, 4; Theorem 3.2",
        "Without augmentation representations are dense: fraction of active units in the layers above the "
        "first, without augmentation minus with crop-resize and colour distortion.",
        "ordering",
        note="In the theory no neuron can fall silent, as biases are set by hand. Trained biases can "
        "silence neurons that have learned nothing, and silence counts as sparse.",
    ),
    Statement(
        "colour-improves-features",
        "Message 3",
        "Colour distortion makes edge and shape features better: linear-probe accuracy with it minus the "
        "higher of that with crop-resize alone and that of the untrained network.",
        "ordering",
    ),
    Statement(
        "augmentation-improves-linear-probe",
        "Figures 2, 3",
        "Crop-resize and colour distortion together improve the features: linear-probe accuracy minus "
        "the higher of that without augmentation and that of the untrained network.",
        "ordering",
    ),
    Statement(
        "augmentation-improves-knn",
        "Figure 3",
        "The same for the accuracy of 20 nearest neighbours.",
        "ordering",
    ),
    Statement(
        "augmentation-separates-classes",
        "Figure 3",
        "The classes become separable clusters: their mean silhouette, with crop-resize and colour "
        "distortion minus the higher of that without augmentation and that of the untrained network.",
        "ordering",
        note="At this size no arm, supervised or not, has clusters: all silhouettes are below 0. The "
        "paper shows t-SNE maps, whose clusters depend on t-SNE; the silhouette is of the features "
        "themselves.",
    ),
    Statement(
        "supervised-sparser-than-crop",
        "Figure 4",
        "Supervised networks fire sparsely whatever the augmentation: active fraction above the first "
        "layer in the contrastive network with crop-resize alone minus in the supervised one.",
        "ordering",
        note=_ONE_METRIC,
    ),
    Statement(
        "supervised-firing-ignores-colour",
        "Figure 4",
        "Colour distortion does not change how sparsely supervised networks fire: active fraction above "
        "the first layer without it minus with it.",
        "identity",
    ),
    Statement(
        "supervised-learns-more-colour",
        "Figure 1",
        "Supervised training (crop-resize) adds more colour to the first-layer filters than contrastive training (with "
        "colour distortion) does: difference of the mean chromatic share of W - W(0).",
        "ordering",
        note=f"{_ADDED} The paper's figure visualises higher layers.",
    ),
    Statement(
        "supervised-more-colourful",
        "Figure 1",
        "Supervised features (crop-resize) are more colourful than contrastive ones (with colour "
        "distortion): difference of the mean chromatic share of the first-layer filters' energy.",
        "ordering",
        expected=False,
        note="The paper's figure visualises higher layers; of the first layer, measured here, it says nothing.",
    ),
)
