"""x"""
from dataclasses import dataclass
from featscope.studies.icl_parity.arms import IclParityArms

@dataclass(frozen=True)
class IclParity(IclParityArms):
    """x"""
