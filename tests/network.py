"""What lies between machines: a way that can be cut, a link to a network namespace, which can fall silent, and nginx
with TLS."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.waiting import until

PATIENCE = 60.0
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
FAKETIME = shutil.which("faketime")
CONFIGURATION = """
user {user};
pid {place}/pid;
error_log {place}/error.log;
daemon off;
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    upstream interlock {{ {servers} }}
    server {{
        listen {host}:{port} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        location / {{
            proxy_pass http://interlock;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-Host $host;
        }}
    }}
}}
"""
"""As the guide has it, with directories of our own."""


def certificate(place: Path, host: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate for that address and `teams.example`, signed by itself, and its key."""
    key, made = place / "key.pem", place / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=teams.example", "-addext", f"subjectAltName=DNS:teams.example,IP:{host}",
         "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


class Nginx:
    """An nginx with TLS before servers, which it asks in turn. `certificate` is what its callers have to trust."""

    def __init__(self, place: Path, *urls: str, host: str = "127.0.0.1") -> None:
        assert NGINX is not None
        place.mkdir()
        self.certificate, key = certificate(place, host)
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        servers = " ".join(f"server {urlsplit(url).netloc};" for url in urls)
        written = CONFIGURATION.format(
            place=place, host=host, port=port, certificate=self.certificate, key=key, servers=servers, user=_user()
        )  # fmt: skip
        (place / "nginx.conf").write_text(written)
        log = str(place / "error.log")
        self._process = subprocess.Popen([NGINX, "-e", log, "-c", str(place / "nginx.conf")], stderr=subprocess.DEVNULL)
        self.url = f"https://{host}:{port}"
        until(lambda: self._process.poll() is not None or _listens(host, port))
        assert self._process.poll() is None, Path(log).read_text()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


class Link:
    """A link to another host, which is a network namespace of this one. `near` is the address of this end.

    Raises:
        OSError, subprocess.CalledProcessError: this machine allows none.
    """

    def __init__(self) -> None:
        number = os.getpid() % 16_000
        self._name = f"ilk{number}"
        third, fourth = divmod(number * 4, 256)
        self.near, far = f"10.201.{third}.{fourth + 1}", f"10.201.{third}.{fourth + 2}"
        self.within = ("ip", "netns", "exec", self._name)
        _ip("netns", "add", self._name)
        try:
            _ip("link", "add", f"{self._name}n", "type", "veth", "peer", "name", f"{self._name}f")
            _ip("link", "set", f"{self._name}f", "netns", self._name)
            _ip("addr", "add", f"{self.near}/30", "dev", f"{self._name}n")
            _ip("-n", self._name, "addr", "add", f"{far}/30", "dev", f"{self._name}f")
            _ip("-n", self._name, "link", "set", f"{self._name}f", "up")
            self.mend()
        except BaseException:
            self.close()
            raise

    def silence(self) -> None:
        """Nothing comes through any more, and no end of a connection hears of it."""
        _ip("link", "set", f"{self._name}n", "down")

    def mend(self) -> None:
        _ip("link", "set", f"{self._name}n", "up")

    def close(self) -> None:
        _ip("netns", "del", self._name)


def apart(name: str, places: Mapping[Path, Path]) -> tuple[str, ...]:
    """The words of a command that starts what follows them on a machine called `name`, which has for each of `places`
    what lies in another one here. A test that cannot have that is skipped."""
    words = ("unshare", "--mount", "--uts", "sh", "-e", "-c")
    mounts = [f"mount --bind {shlex.quote(str(other))} {shlex.quote(str(place))}" for place, other in places.items()]
    found = subprocess.run([*words, "hostname apart"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"no machine apart can be made here: {found.stderr}")
    return (*words, "\n".join([f"hostname {shlex.quote(name)}", *mounts, 'exec "$@"']), "sh")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
        return True
    except OSError:
        return False


def _user() -> str:
    """Who we are, and our group: nobody else may look into the directories of tests."""
    return f"{pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Way:
    """A way to a server, which can be cut and mended."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._whole = True
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole = False
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._whole = True

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # It is closed.
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._server) if self._whole else None
                except OSError:  # The server is gone.
                    far = None
                if far is None:
                    near.close()
                    continue
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        source.close()
