"""How much of learning is due to the inputs: real ones beside injected ones, all labelled by one teacher."""

from featscope.studies.input_structure.study import InputStructure

__all__ = ["InputStructure"]
