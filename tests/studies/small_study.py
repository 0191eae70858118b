"""The study of decoupling at a size that takes seconds."""

from featscope.data import SparseCoding
from featscope.models import SymmetricReLU
from featscope.studies.decoupling import Decoupling
from featscope.training import SGD, BiasSchedule, Contrastive

REPLICAS = 8
STUDY = Decoupling(
    data=SparseCoding(features=12, input_dim=128),
    learner=SymmetricReLU(width=96),
    objective=Contrastive(anchors=256, negatives=128),
    optimizer=SGD(weight_decay=0.01),
    bias=BiasSchedule(growth=0.2),
    steps=500,
)
