"""A lock on a run folder, so that no two runs work in one.

It is a lock of the system on a file that is held open, so it ends with the process, however that ends; what the file
says is only for the message. Forked workers close the file: they neither keep the lock nor give it away.
"""

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from featscope.options import ConfigError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".featscope.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_MOST = 1000  # bytes that a holder says of itself

_held: set[int] = set()


def _close_in_child() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class Lock:
    """A folder held by this process. Where the file system has no locks, it is held by nobody, and all goes on.

    Args:
        folder: which; it exists.
        option: what it is called where it is typed.

    Raises:
        ConfigError: another run holds it, or one of this process. The message says who, and since when.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, option: str = "out") -> None:
        self._file = folder / NAME
        self._handle: int | None = None
        while fcntl is not None:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            _held.add(handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_there(handle):  # whoever held it may have removed it since it was opened
                    os.ftruncate(handle, 0)
                    os.write(handle, _me())
                    self._handle = handle
                    return
            except BlockingIOError:
                said = f"{option} = {str(folder)!r} is held by {_who(handle)}"
                raise ConfigError(f"{said}, or choose another folder") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                if not os.fstat(handle).st_size:
                    self._file.unlink(missing_ok=True)
                return
            finally:
                if self._handle is None:
                    _close(handle)

    def release(self) -> None:
        """Let it go, and remove the file. Does nothing a second time, or in a forked worker."""
        if self._handle in _held:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            _close(self._handle)
        self._handle = None

    def _is_there(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._file.stat())
        except FileNotFoundError:
            return False


@contextmanager
def locked(folder: Path, option: str = "out") -> Iterator[None]:
    """Nobody else is in ``folder``, which exists.

    Raises:
        ConfigError: another run holds it.
        OSError: the folder cannot be written.
    """
    lock = Lock(folder, option)
    try:
        yield
    finally:
        lock.release()


def require_free(folder: Path, option: str = "out") -> None:
    """See that nobody holds a folder, see `Lock`. The file that a killed run left goes.

    Raises:
        ConfigError: another run does.
    """
    if (folder / NAME).exists():
        Lock(folder, option).release()


def _close(handle: int) -> None:
    _held.discard(handle)
    os.close(handle)


def _me() -> bytes:
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    return json.dumps(about).encode()


def _who(handle: int) -> str:
    """Who holds it, and what to do about that."""
    who = "another run"
    try:
        about = json.loads(os.pread(handle, _MOST, 0))
        if (about["pid"], about["host"]) == (os.getpid(), socket.gethostname()):
            return f"this process (since {about['since']!s}): close() the Monitor or end the run that is in it"
        who += f" (process {about['pid']:d} on {about['host']!r}, since {about['since']!s})"
    except (KeyError, OSError, TypeError, ValueError):  # it has not said yet
        pass
    return f"{who}: wait for it, end it"
