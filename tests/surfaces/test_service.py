"""`interlock service`: one description as a systemd unit and as a launchd agent, and nobody's own file is touched."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock as package
from interlock.app import server_lock, service
from interlock.app.home import Home
from interlock.app.uninstalling import leftovers, remove_everything
from interlock.errors import Conflict
from interlock.surfaces.cli.entry import run
from tests.docs.terminal import commands
from tests.waiting import until

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in *is-active*|*print*) test -e "$CALLS.active"; exit;; esac
case "$*" in *restart*|*bootstrap*) touch "$CALLS.active";; *disable*|*bootout*) rm -f "$CALLS.active";; esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user's own directories, and a service manager that does nothing but note what it is told."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("systemctl", "launchctl"):
        (directory / name).write_text(STAND_IN)
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "calls"


@pytest.fixture
def home(tmp_path: Path, calls: Path) -> Iterator[Home]:
    opened = package.connect(str(tmp_path / 'a "home" with 100% $HOME'))
    yield opened
    opened.close()


@pytest.fixture(params=["linux", "darwin"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "platform", request.param)
    return str(request.param)


def test_installing_twice_writes_once_and_uninstalling_leaves_nothing(platform: str, home: Home, calls: Path) -> None:
    first, second = service.install(home), service.install(home)
    assert (first.done, second.done) == ("written", "unchanged") and first.installed and first.active
    assert service.status(home).active and not first.problem
    gone = service.remove(home)
    assert (gone.done, gone.installed, gone.active) == ("removed", False, False)
    assert not os.path.exists(first.file) and service.remove(home).done == "not installed"
    said = calls.read_text()
    told = ["systemctl --user enable", "systemctl --user restart", "disable --now"]
    assert all(one in said for one in (told if platform == "linux" else ["launchctl bootstrap gui/", "bootout gui/"]))


def test_a_file_of_somebody_else_stays_as_it_is(platform: str, home: Home) -> None:
    file = Path(service.status(home).file)
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    for act in (service.install, service.remove, service.status):
        with pytest.raises(Conflict, match="not written by Interlock"):
            act(home)
    assert file.read_text() == "mine"


def test_both_files_say_the_same(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    agent = plistlib.loads(Path(service.install(home, port=9000).file).read_bytes())
    assert agent["ProgramArguments"][1:] == ["--home", home.path, "up", "--port", "9000"]
    assert agent["EnvironmentVariables"] == {"PATH": os.environ["PATH"]} and agent["WorkingDirectory"] == home.path
    monkeypatch.setattr(sys, "platform", "linux")
    unit = Path(service.install(home, port=9000).file).read_text()
    [line] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    escaped = home.path.replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    assert line.endswith(f'"--home" "{escaped}" "up" "--port" "9000"')


def test_systemd_takes_the_unit(home: Home) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    file = service.install(home).file
    ran = subprocess.run(["systemd-analyze", "verify", "--user", file], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


def test_what_the_manager_refuses_is_said_with_what_is_left_to_do(home: Home, calls: Path) -> None:
    (calls.parent / "bin" / "systemctl").write_text("#!/bin/sh\necho no bus >&2; exit 1\n")
    found = service.install(home)
    assert (found.done, found.installed, found.active, found.problem) == ("written", True, False, "no bus")
    assert found.command.startswith("systemctl --user daemon-reload && systemctl --user enable ")


def test_each_home_has_a_service_of_its_own_and_the_usual_one_the_plain_name(tmp_path: Path, home: Home) -> None:
    usual = package.connect(str(tmp_path / ".interlock"))
    assert os.path.basename(service.status(usual).file) == "interlock.service"
    assert service.status(usual).file != service.status(home).file
    usual.close()


@pytest.mark.long
def test_what_the_service_starts_serves_the_home_and_ends_well_when_told(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(commands(tmp_path)), prepend=os.pathsep)
    service.install(home)
    Path(f"{os.environ['CALLS']}.active").unlink()  # The stand-in started nothing.
    service_ = service._described(home, None)
    started = subprocess.Popen(service_.command, env={"PATH": service_.path, "HOME": str(tmp_path)}, cwd=home.path)
    try:
        until(lambda: server_lock.find(home.path) is not None, 60.0)
        assert service.status(home).url is not None
        with pytest.raises(Conflict, match="interlock down"):
            service.install(home)
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0, "systemd would start it again after any other end"
    finally:
        started.kill()
        started.wait()


def test_the_command_says_how_it_stands(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str]:
        code = run(["--home", home.path, "service", *words])
        return code, capfd.readouterr().out

    assert said("status")[0] == 3 and said("install") == (0, f"written: {service.status(home).file}\n")
    assert said("status") == (0, f"runs: {service.status(home).file}\n")
    code, document = said("--json", "remove")
    assert code == 0 and json.loads(document)["done"] == "removed"


def test_uninstalling_everything_takes_the_service_along(home: Home) -> None:
    home.create_team("alpha")
    file = service.install(home).file
    assert file in leftovers(home).paths
    remove_everything(home, leftovers(home))
    assert not os.path.exists(file) and not os.path.exists(home.path)
