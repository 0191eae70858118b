"""The tensor power method: how fast x_{t+1} = x_t + η C_t x_t^q grows, and what it leaves to a rival."""

from featscope.studies.tensor_power.study import TensorPower

__all__ = ["TensorPower"]
