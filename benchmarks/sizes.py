"""The two sizes whose steps of training are timed. Thresholds, which hardly cost, are left out."""

from dataclasses import replace

from featscope.data import SparseCoding
from featscope.models import SymmetricReLU
from featscope.studies.decoupling import Decoupling
from featscope.training import Contrastive

DEFAULT = replace(Decoupling().arm("augmented").recipe, rules={})
SMALL = replace(
    DEFAULT,
    data=SparseCoding(features=9, input_dim=50, dictionary="qr"),
    learner=SymmetricReLU(width=30),
    objective=Contrastive(anchors=128, negatives=128),
)
