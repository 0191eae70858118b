"""What somebody who watches a run has asked of it: a word in a file of its folder, which the run looks at.

A file needs no connection: whoever may write in the folder may ask, also on another machine, and a run that has ended
is asked in vain. The run removes it when it begins and when it ends.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from featscope.files import AS_IT_IS, atomic_write

NAME = ".featscope.asked"
Wish = Literal["", "pause", "stop"]
"""To go on, to wait between two steps, to end as Ctrl-C ends it."""
_WISHES: tuple[Wish, ...] = get_args(Wish)


def ask(folder: Path, wish: Wish) -> None:
    """Leave ``wish`` for the run in ``folder``; the one before is forgotten.

    Raises:
        OSError: the folder cannot be written.
    """
    if wish:
        atomic_write(folder / NAME, wish.encode())
    else:
        (folder / NAME).unlink(missing_ok=True)


def asked(folder: Path) -> Wish:
    """What is asked of the run in ``folder``; anything that is not understood is no wish."""
    with suppress(OSError):
        handle = os.open(folder / NAME, AS_IT_IS)
        try:
            said = os.read(handle, 16).decode(errors="replace")
        finally:
            os.close(handle)
        return next((wish for wish in _WISHES if wish == said), "")
    return ""
