"""The study of looped transformers, small: few prompts, and short training."""

from dataclasses import replace

from featscope.studies.looped_transformer import LoopedTransformer
from featscope.testing import Trial

STUDY = replace(LoopedTransformer().smallest(), training_steps=60)
TRIAL = Trial(STUDY)
