"""What the two studies of in-context learning share; and studies of language models without the extra they need."""

import os
import subprocess
import sys

WITHOUT = """
import sys

sys.modules["transformers"] = None  # as if it were not installed
from importlib import import_module

from featscope.options import MissingExtraError
from featscope.streams import Streams
from featscope.studies.icl_attention import IclAttention
from featscope.studies.icl_flipped_labels import IclFlippedLabels

def missing(call):
    try:
        call()
    except MissingExtraError as error:
        return f"{error.part}: {error.extra}"

for study in (IclAttention(), IclFlippedLabels()):
    assert study.statements()
    (arm, *_) = study.arms()
    print(missing(lambda: arm.recipe.build(Streams(0, [0]))))
print(missing(lambda: import_module("featscope.studies.longbench")))
"""


def test_the_extra_is_named_where_it_is_missing():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["featscope.language: language"] * 3
