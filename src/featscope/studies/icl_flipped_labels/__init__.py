"""In-context learning from exemplars whose labels are inverted: who follows them, and who does not."""

from featscope.studies.icl_flipped_labels.study import IclFlippedLabels

__all__ = ["IclFlippedLabels"]
