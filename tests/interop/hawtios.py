"""The console of Artemis, hawtio with its plugin, served to a browser in front of any Jolokia.

The pages are those of ``artemis-console-war``, the web application that Artemis 2.42 has in its own Jetty, unchanged.
What that application does in Java is answered here: who is logged in, logging in and out, that it may ask what it asks,
and where its pages lie. Its Jolokia is that of the broker in question, which is asked with the password that was typed.
"""

from __future__ import annotations

import base64
import http.client
import json
import mimetypes
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

import maven

VERSION: Final = "1.3.0"
WAR: Final = f"org.apache.activemq:artemis-console-war:{VERSION}:war"
PLACE: Final = "/console/"
PLAIN: Final = {
    "auth/config/login": {},
    "auth/config/session-timeout": {},
    "keycloak/enabled": False,
    "plugin": [],
    "proxy/enabled": False,
}
"""What the application answers about how to log in, where nothing but user and password is configured."""
PATIENCE_S: Final = 30


def pages() -> zipfile.ZipFile:
    """Return the pages. Raises maven.Unavailable."""
    return zipfile.ZipFile(maven.file(WAR))


class Asked:
    """One request of the pages to Jolokia, and the status of its answer."""

    def __init__(self, body: str, status: int, answer: str) -> None:
        self.body = body
        self.status = status
        self.answer = answer


class Hawtio:
    """The application: ``jolokia`` is where its broker answers, ``asked`` what its pages wanted."""

    def __init__(self, jolokia: str) -> None:
        self.jolokia: Final = jolokia.rstrip("/")
        self.pages: Final = pages()
        self.asked: Final[list[Asked]] = []
        self.login = ""
        """Who is logged in, as a header says it; "" is nobody. There is one browser."""

    def user(self) -> str:
        return base64.b64decode(self.login.partition(" ")[2]).decode().partition(":")[0] if self.login else ""

    def forward(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Ask the broker's Jolokia; returns status and answer."""
        place = urlsplit(self.jolokia)
        connection = http.client.HTTPConnection(place.netloc, timeout=PATIENCE_S)
        headers = {"Authorization": self.login} if self.login else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, place.path + (path or "/"), body, headers)  # the agent wants the slash
            got = connection.getresponse()
            answer = got.read()
        finally:
            connection.close()
        self.asked.append(Asked((body or path.encode()).decode(), got.status, answer.decode()))
        return got.status, answer

    def logs_in(self, given: dict[str, str]) -> bool:
        """Take user and password if the broker does."""
        told = f"{given['username']}:{given['password']}"
        self.login = "Basic " + base64.b64encode(told.encode()).decode()
        status, _ = self.forward("GET", "/version", None)
        if status != 200:
            self.login = ""
        return status == 200


class Handler(BaseHTTPRequestHandler):
    """One request of the browser."""

    hawtio: Hawtio

    def do_GET(self) -> None:
        """Give a page, or what Java answers."""
        path = self.path.partition("?")[0].removeprefix(PLACE)
        if path == "jolokia" or path.startswith("jolokia/"):
            self._jolokia("GET", None)
        elif path == "user":
            self._json(self.hawtio.user() or None, 200 if self.hawtio.login else 403)
        elif path in PLAIN:
            self._json(PLAIN[path])
        elif path == "auth/logout":
            self.hawtio.login = ""
            self._say(302, b"", "text/plain", {"Location": PLACE})
        elif path in self.hawtio.pages.namelist() and not path.endswith("/"):
            self._say(200, self.hawtio.pages.read(path), mimetypes.guess_type(path)[0] or "text/plain")
        elif (self.path + "/").startswith(PLACE) and "." not in path:
            index = self.hawtio.pages.read("index.html").replace(
                b'<base href="/hawtio/"/>', b'<base href="/console/"/>'
            )
            self._say(200, index, "text/html; charset=utf-8")
        else:
            self._say(404, b"", "text/plain")

    def do_POST(self) -> None:
        """Log in, or ask Jolokia."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == PLACE + "auth/login":
            taken = self.hawtio.logs_in(json.loads(body))
            self._json({"user": self.hawtio.user()} if taken else {}, 200 if taken else 403)
        else:
            self._jolokia("POST", body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _jolokia(self, method: str, body: bytes | None) -> None:
        status, answer = self.hawtio.forward(method, self.path.removeprefix(PLACE + "jolokia"), body)
        self._say(status, answer, "application/json")

    def _json(self, value: object, status: int = 200) -> None:
        self._say(status, json.dumps(value).encode(), "application/json")

    def _say(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        with suppress(ConnectionError):  # the browser went elsewhere
            self.wfile.write(body)


@contextmanager
def serving(jolokia: str) -> Iterator[tuple[str, Hawtio]]:
    """Serve the pages in front of ``jolokia``; yields where."""
    hawtio = Hawtio(jolokia)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hawtio": hawtio}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{PLACE}", hawtio
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
