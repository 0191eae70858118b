"""Parities of uniform signs: what the first gradient of a random neuron knows of them."""

from featscope.studies.uniform_parity.study import UniformParityStudy

__all__ = ["UniformParityStudy"]
