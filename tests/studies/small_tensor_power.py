"""The study of tensor powers at fewer and larger steps than by default, run once for all tests in this process."""

from dataclasses import replace

from featscope.studies import Axis
from featscope.studies.tensor_power import TensorPower
from featscope.testing import Trial

STUDY = TensorPower()
STEEP = STUDY.arm("steep")
CHEAPER = {
    "step-sizes": replace(STUDY.arm("step-sizes"), over=(Axis("learner.step_size", (0.01, 0.03, 0.1)),)),
    "starts": replace(STUDY.arm("starts"), over=(Axis("learner.start", (0.1, 0.2)),)),
    "linear": replace(STUDY.arm("linear"), over=(Axis("learner.start", (0.05, 0.2)),)),
    "steep": replace(STEEP, recipe=replace(STEEP.recipe, learner=replace(STEEP.recipe.learner, start=0.7))),
}
TRIAL = Trial(STUDY, replicas=4, more={"step-sizes": 8}, arms=CHEAPER)
