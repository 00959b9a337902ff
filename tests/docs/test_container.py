"""The steps of Dockerfile and compose.yaml, carried out in a Debian of their own. No container engine is needed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from tests import postgres
from tests.conftest import ROOT

pytestmark = pytest.mark.storm

HOST_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""How this machine reaches Debian's and Python's packages."""
PRIVATE = [shutil.which("unshare") or "unshare", "--mount"]
HANDED_ON = re.compile(r"(?i)(pip_|ssl_|https?_proxy|no_proxy)")


class Image:
    """What a Dockerfile makes, below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {name: value for name, value in os.environ.items() if HANDED_ON.match(name)}
        self.environment |= {"PATH": "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.user, self.workdir, self.command = "root", "/", [""]

    def build(self, dockerfile: str) -> None:
        said = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", dockerfile))
        for line in filter(None, said.splitlines()):
            word, rest = line.split(" ", 1)
            if word == "FROM":
                suite = re.fullmatch(r"debian:(\w+)-slim", rest)
                assert suite, rest
                subprocess.run(["debootstrap", "--variant=minbase", suite[1], str(self.root)], check=True)
            elif word == "RUN":
                self._reach_packages()  # each time: installing certificates makes the list of them again
                subprocess.run(self.argv(["/bin/sh", "-c", rest]), check=True)
            elif word == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    to = self.root / target.lstrip("/")
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        to.mkdir(parents=True, exist_ok=True)
                        shutil.copy(ROOT / source, to)
            elif word == "ENV":
                name, _, value = rest.partition("=")
                self.environment[name] = value
            elif word == "USER":
                self.user = rest
            elif word == "WORKDIR":
                self.workdir = rest
            elif word == "CMD":
                self.command = json.loads(rest)
            else:
                assert word in {"VOLUME", "EXPOSE", "HEALTHCHECK"}, line

    def _reach_packages(self) -> None:
        for name in HOST_FILES:
            if Path(name).exists():
                (self.root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, self.root / name[1:])

    def argv(self, command: list[str], **environment: str) -> list[str]:
        """What runs a command in it, as its user."""
        given = [f"{name}={value}" for name, value in {**self.environment, **environment}.items()]
        user = [] if self.user == "root" else [f"--userspec={self.user}:{self.user}"]
        inside = shlex.join(["/bin/sh", "-c", f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"])
        root = shlex.quote(str(self.root))
        # /proc is there for this command alone, so that nothing stays mounted.
        mounted = f"mount -t proc proc {root}/proc && exec {shutil.which('chroot')} {shlex.join(user)} {root} {inside}"
        return ["env", "-i", *given, *PRIVATE, "/bin/sh", "-c", mounted]


@pytest.fixture
def image() -> Iterator[Image]:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have debootstrap, and be root")
        pytest.skip("only root can make a root directory, with debootstrap")
    if subprocess.run([*PRIVATE, "true"], capture_output=True).returncode:
        pytest.skip("the system lets nobody mount anything")
    root = Path(tempfile.mkdtemp(prefix="il-root-", dir="/tmp"))
    root.chmod(0o755)
    yield Image(root)
    shutil.rmtree(root, ignore_errors=True)


def test_the_server_of_the_compose_file_keeps_its_teams_on_its_database(image: Image) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    server = services["interlock"]
    assert (server["build"], server["ports"]) == (".", ["127.0.0.1:8420:8420"])
    image.build((ROOT / "Dockerfile").read_text())
    assert image.user != "root"
    (image.root / "run/db").mkdir()
    database = postgres.Breakable(image.root / "run/db")
    os.chmod(image.root / "run/db", 0o711)
    ledger = server["environment"]["INTERLOCK_LEDGER"]
    assert ledger == "postgresql://interlock@db:5432/interlock"
    # A container has its own addresses; here the database is reached by a file, and the port is any.
    environment = {"INTERLOCK_LEDGER": "postgresql://postgres@/postgres?host=/run/db"}
    command = [*image.command[:-1], "0"]
    up = subprocess.Popen(image.argv(command, **environment), stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        link = re.search(r"http://127\.0\.0\.1:\d+", up.stdout.readline())
        assert link
        with urllib.request.urlopen(f"{link[0]}/readyz", timeout=200) as answer:
            assert answer.status == 200
        made = ["interlock", "team", "create", "alpha-squad", "--workdir", "/data"]
        subprocess.run(image.argv(made, **environment), check=True)
        assert not list((image.root / "data/teams/alpha-squad").glob("*.db"))
        said = subprocess.run(
            image.argv(["interlock", "team", "list"], **environment), check=True, capture_output=True, text=True
        )
        assert "alpha-squad" in said.stdout
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(200) is not None
        if up.stdout is not None:
            up.stdout.close()
        database.close()
    deadline = time.monotonic() + 200
    while any(str(image.root) == _root_of(one) for one in psutil.pids()):
        assert time.monotonic() < deadline, "something is left in the container"


def _root_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/root")
    except OSError:
        return ""
