"""Where a run is watched: a port of this machine and a secret word, which are kept in the run folder.

They are kept so that a page that is open finds the server again after that was ended and begun anew. Only the owner may
read the file.
"""

import json
import os
import re
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from featscope.files import AS_IT_IS
from featscope.runs.folder import WATCHED

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Address:
    """Where the page is.

    Attributes:
        port: of 127.0.0.1.
        token: the secret word; who does not know it is refused.
    """

    port: int
    token: str

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"


def read_address(folder: Path) -> Address:
    """The address kept in ``folder``; port 0 (any) and a new word where there is none, or none to be trusted."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        handle = os.open(folder / WATCHED, AS_IT_IS)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            said = json.loads(file.read(200))
        port, token = said["port"], said["token"]
        posix = hasattr(os, "getuid")  # elsewhere who may read a file is not among what `fstat` says
        ours = not posix or (about.st_uid == os.getuid() and not about.st_mode & 0o077)
        if ours and type(port) is int and 1024 <= port < 65536 and _TOKEN.fullmatch(token):
            return Address(port, token)
    return Address(0, secrets.token_urlsafe(32))


def keep_address(folder: Path, address: Address) -> None:
    """Keep ``address`` in ``folder``, for its owner alone. Where that cannot be, it is not kept."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{WATCHED}.")  # of a kind that only the owner may read
        try:
            with os.fdopen(handle, "w") as file:
                json.dump({"port": address.port, "token": address.token}, file)
            Path(name).replace(folder / WATCHED)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
