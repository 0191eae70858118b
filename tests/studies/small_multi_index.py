"""The study of polynomials of few directions, small, but for samples: fewer leave undecided what is lost as printed."""

from dataclasses import replace

from featscope.studies.multi_index import MultiIndexStudy
from featscope.testing import Trial

STUDY = replace(MultiIndexStudy().smallest(), samples=10000)
TRIAL = Trial(STUDY)
