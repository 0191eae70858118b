"""A small server for the one who watches, on this machine only.

It is the standard library's: one page, one stream of server-sent events, one button press. A stream is an answer that
does not end, in a thread of its own, which is all that a handful of viewers need; a framework would bring an event
loop, a second way to start and two more packages to keep.

What is refused: whoever does not name the secret word that is in the address (403); whoever calls the server by
another name than its own, as a page elsewhere would that points its name at this machine (403); presses that come from
another site (403).
"""

import json
import os
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest
from typing import Any, get_args
from urllib.parse import urlsplit

from featscope.options import ConfigError
from featscope.runs.asked import Wish, ask
from featscope.watch.address import Address, keep_address, read_address
from featscope.watch.pages import Pages, around

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_OF_SILENCE = 5.0
_MOST_STREAMS = 16
_LONGEST_WISH = 16  # bytes


class Server(ThreadingHTTPServer):
    """The server of a run folder; `serve_forever` serves.

    Args:
        folder: the run folder.

    Raises:
        OSError: this machine has no port to give.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere it would let two servers share a port

    def __init__(self, folder: Path) -> None:
        self.folder, self.pages = folder, Pages(folder)
        self.streams, self.ending = 0, False
        kept = read_address(folder)
        try:
            super().__init__(("127.0.0.1", kept.port), _Handler)
        except OSError:  # somebody else has it now
            super().__init__(("127.0.0.1", 0), _Handler)
        self.address = Address(self.server_address[1], kept.token)
        self.keep()

    def keep(self) -> None:
        """Keep the address in the folder, once that is a run's."""
        if (self.folder / "config.json").is_file() and read_address(self.folder) != self.address:
            keep_address(self.folder, self.address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "FeatScope", ""
    protocol_version = "HTTP/1.1"
    timeout = 20  # seconds that a browser may take to say what it wants, or to take what it is sent

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the run's, and the address has a secret in it."""

    def do_GET(self) -> None:
        """The page, the report in it, or the stream."""
        what = self._allowed()
        if what == "":
            text, policy = around(self.server.folder)
            self._answer(text, policy=policy)
        elif what == "report":
            self._answer(self.server.pages.report(), policy="frame-ancestors 'self'")
        elif what == "events":
            self._stream()
        elif what is not None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """A wish."""
        what = self._allowed()
        if what is None:
            return
        if what != "ask":
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _LONGEST_WISH:
            self._refuse(HTTPStatus.BAD_REQUEST, "a wish is a word")
            return
        said = self.rfile.read(int(length)).decode(errors="replace")
        said = "" if said == "go on" else said or "nothing"
        wishes: tuple[Wish, ...] = get_args(Wish)
        for wish in wishes:
            if said == wish:
                self._ask(wish)
                return
        self._refuse(HTTPStatus.BAD_REQUEST, "allowed is pause, go on or stop")

    def _ask(self, wish: Wish) -> None:
        seen = self.server.pages.seen()
        if seen["state"] not in ("running", "paused") or (wish == "pause" and not seen["can_pause"]):
            self._refuse(HTTPStatus.CONFLICT, "no run is going on here that could do so")
            return
        try:
            ask(self.server.folder, wish)
        except OSError as error:
            self._refuse(HTTPStatus.CONFLICT, f"the run folder cannot be written ({error.strerror})")
            return
        self._answer("asked", "text/plain")

    def _allowed(self) -> str | None:
        """What is wanted, by whoever may; else None, and they are told no."""
        address = self.server.address
        ours = {f"127.0.0.1:{address.port}", f"localhost:{address.port}"}
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in ours or (origin is not None and urlsplit(origin).netloc not in ours):
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers to its own name only")
            return None
        token, slash, what = urlsplit(self.path).path.removeprefix("/").partition("/")
        if not slash or not compare_digest(token.encode(), address.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the address lacks its secret word: take the one that was printed")
            return None
        return what

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # what else was sent is not read
        self._answer(f"{why}\n", "text/plain", status)

    def _answer(
        self, text: str, kind: str = "text/html", status: HTTPStatus = HTTPStatus.OK, policy: str = "default-src 'none'"
    ) -> None:
        content = text.encode(errors="replace")
        self._begin(status, kind, policy)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, policy: str) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)

    def _stream(self) -> None:
        if self.server.streams >= _MOST_STREAMS:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many watch already: close a page")
            return
        self.close_connection = True
        self.server.streams += 1
        try:
            self._begin(HTTPStatus.OK, "text/event-stream", "default-src 'none'")
            self.end_headers()
            told, at = "", 0.0
            while not self.server.ending:
                seen = self.server.pages.seen()
                text = json.dumps(seen)
                if text != told or time.monotonic() - at > _SECONDS_OF_SILENCE:
                    told, at = text, time.monotonic()
                    text = json.dumps({**seen, "age": self.server.pages.age})
                    self.wfile.write(f"data: {text}\n\n".encode())
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        except OSError:  # the browser has gone
            pass
        finally:
            self.server.streams -= 1


def watch(folder: Path) -> Server:
    """The server of the run in ``folder``, not serving yet.

    Raises:
        ConfigError: this machine has no port to give.
    """
    try:
        return Server(folder)
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"no port of 127.0.0.1 can be had ({why}): allow it, or watch from outside") from None


def close(server: Server) -> None:
    """End the streams, and the server with them."""
    server.ending = True
    with suppress(OSError):
        server.server_close()
