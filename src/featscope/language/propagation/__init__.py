"""What layers see of a prompt of which tokens were chosen."""

from featscope.language.propagation.keep_hidden import KeepHidden
from featscope.language.propagation.read_again import ReadAgain
from featscope.language.propagation.whole_prompt import WholePrompt

__all__ = ["KeepHidden", "ReadAgain", "WholePrompt"]
