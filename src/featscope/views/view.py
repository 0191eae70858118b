"""What a view is."""

from collections.abc import Callable

from torch import Tensor

from featscope.streams import Draws

View = Callable[[Tensor, Draws], tuple[Tensor, Tensor]]
"""(samples ``[replica, batch, ...]``, draws) -> the two members of each positive pair, shaped like the samples."""
