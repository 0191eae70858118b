"""Addition modulo p by Fourier circuits: the network of largest margin in closed form, and what training finds."""

from featscope.studies.fourier_circuits.study import FourierCircuits

__all__ = ["FourierCircuits"]
