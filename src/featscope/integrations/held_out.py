"""Held-out samples of a loader, and how a model that was not built here is run on them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featscope.integrations.batches import copied, first_batches, run_model, size_of
from featscope.integrations.labels import labels_of_all, tell
from featscope.integrations.rows import one_row_a_sample, refuse_maps, refuse_other_axes
from featscope.modules import evaluating, kept, uncompiled

Run = Callable[[nn.Module, Any], Any]
Reduce = Callable[[Any], Tensor]


class HeldOut:
    """Copies of the first samples of a loader, so that every look is at the same ones, whatever is done to a batch.

    It warns where labels are not sure or of little use, see `labels_of_all`.

    Args:
        batches: tensors; tuples or lists of inputs and labels; or mappings, as tokenizers make them.
        samples: about how many to keep; whole batches are.
        run: ``run(model, batch)`` where `run_model` does not do.
        neighbours: that vote on a sample's class; 0 where none do.

    Raises:
        ValueError: there are fewer than two samples, or a batch is a mapping without a tensor.
    """

    def __init__(self, batches: Iterable[Any], samples: int, run: Run | None = None, neighbours: int = 0) -> None:
        self._run = run or run_model
        self.batches, more = first_batches(batches, samples)
        self.samples = sum(map(size_of, self.batches))
        if self.samples < 2:
            raise ValueError(f"held_out has {self.samples} samples: allowed are two or more")
        self.labels = labels_of_all(self.batches, more, neighbours)
        self._told = False  # that features are not finite
        self._known = set[str]()  # parts whose axes were looked at

    def run(self, model: nn.Module, batch: Any) -> Any:
        """What a model puts out on a copy of a batch, in which it may work in place."""
        with uncompiled(model):
            return self._run(model, copied(batch))

    @torch.no_grad()
    def features(self, model: nn.Module, at: str, reduce: Reduce | None) -> Float[Tensor, "sample dimension"]:
        """What the submodule ``at`` puts out, one row a sample, on the CPU.

        Raises:
            AttributeError: there is no submodule of that name.
            ValueError: it did not run, or what it puts out is no row a sample; or, without `reduce`, maps of one axis
                or flattened ones, maps that may have channels first or last, states with samples second, or tokens that
                a mask is not of.
        """
        rows, seen = [], []
        part = model.get_submodule(at)
        hook = part.register_forward_hook(lambda _part, _inputs, out: seen.append(kept(out)))
        try:
            with evaluating(model):
                for batch in self.batches:
                    seen.clear()
                    self.run(model, batch)
                    if not seen:
                        raise ValueError(f"at = {at!r} is out of range: this submodule did not run")
                    output = seen[-1]
                    if reduce is None:
                        refuse_maps(part, at, output)
                        if at not in self._known:
                            refuse_other_axes(part, at, output, partial(self.run, model, batch))
                            self._known.add(at)
                    row = one_row_a_sample(output, batch, part, at) if reduce is None else reduce(output)
                    rows.append(row.float().cpu().clone())  # a view would keep all that it is of
        finally:
            hook.remove()
        unlike = [row for row in rows if row.ndim != 2 or row.shape[1] != rows[0].shape[-1]]
        found = unlike[0] if unlike else torch.cat(rows)
        if unlike or len(found) != self.samples:
            raise ValueError(
                f"at = {at!r} is out of range: features have shape {list(found.shape)} for {self.samples} samples, "
                "allowed is [sample, dimension]. Say with `reduce` how to make one row a sample of what is put out."
            )
        if not self._told and not found.isfinite().all():
            self._told = True
            tell(
                f"at = {at!r}: what this puts out on held-out samples is not finite, and what is measured of it is NaN "
                "until it is. Are samples, or weights, NaN?"
            )
        return found
