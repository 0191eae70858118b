"""FeatScope in a training of one's own: a plain loop, Lightning or the Hugging Face Trainer.

`Monitor` is for any loop. `featscope.integrations.lightning` and `featscope.integrations.trainer` have callbacks that
call it; import them where they are wanted, as they import these frameworks.
"""

from featscope.integrations.monitor import Monitor

__all__ = ["Monitor"]
