"""The study of in-context regression, small: few dimensions, and short training."""

from dataclasses import replace

from featscope.data import RegressionPrompts
from featscope.studies.icl_regression import IclRegression
from featscope.studies.icl_regression.online import SquaredError
from featscope.testing import Trial
from featscope.training import Cooling

STUDY = replace(IclRegression().smallest(), dimension=4, training_steps=200, prompts=300, steps=40)
ARMS = {arm.name: arm for arm in STUDY.arms()}


def shorter(name, steps, **of):
    """An arm with fewer steps."""
    recipe = replace(ARMS[name].recipe, steps=steps, **of)
    return replace(ARMS[name], recipe=recipe)


SHORT = {
    "descent": shorter("descent", 8, learner=replace(ARMS["descent"].recipe.learner, at_a_time=800)),
    "online": shorter("online", 800, objective=SquaredError(48), rules={"cooling": Cooling(800, 0.01)}),
    "unrelated-labels": shorter("unrelated-labels", 60),
    "free-blocks": shorter("free-blocks", 100),
    "rank-of-a-block": shorter("rank-of-a-block", 150, data=RegressionPrompts(3, 60)),
}
TRIAL = Trial(STUDY, replicas=6, arms=SHORT)
