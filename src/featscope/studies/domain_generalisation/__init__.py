"""The study `domain-generalisation`: does the nuclear norm of features help in a domain that was never seen?"""

from featscope.studies.domain_generalisation.study import DomainGeneralisation

__all__ = ["DomainGeneralisation"]
