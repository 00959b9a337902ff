"""What a program of a member gets to see of the user's environment.

An allow-list: where things and toolchains are, who the user is, language, time zone, certificates, proxies, and how
package managers are set up, but for what of that is named like a secret. Everything else (cloud credentials, API keys,
`SSH_AUTH_SOCK`) only when the plan names it (`env: [NAMES]`). Variables of Interlock itself never pass from outside,
above all not `INTERLOCK_TOKEN`; the runner sets those that a run needs.

What counts as a secret, to be blanked in output and logs: the value of any variable beyond the allow-list whose name
says so (KEY, TOKEN, SECRET, PASSWORD, …), and a password inside a URL, in any variable. Not every named value: with
`NODE_ENV=production`, blanking "production" would ruin the output. Values below six characters are not blanked, for
the same reason.

Agents report through `interlock task complete` and the like, with the command of the installation that runs them. The
user's PATH may name another version first, or none at all (`python -m`, a source tree, an environment that is not
activated). So each team has a directory with one small script in it that starts this interpreter with this package, and
nothing else: putting it first on PATH changes the meaning of no other name.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence

from interlock.core.unit_of_work import Workspace
from interlock.errors import StorageError
from interlock.model.names import check_variables
from interlock.processes.ancestry import RUN_HOME, RUN_KEEP, RUN_TEAM, RUN_TOKEN
from interlock.settings import Settings
from interlock.storage import files

ALLOWED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "CI"),
        *("TMPDIR", "TMP", "TEMP", "VIRTUAL_ENV", "__CF_USER_TEXT_ENCODING"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("NIX_SSL_CERT_FILE", "GIT_SSL_CAINFO"),
        *("CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "GOPROXY"),
        *("GOFLAGS", "GOTOOLCHAIN", "JAVA_HOME", "MAVEN_HOME", "GRADLE_USER_HOME", "ANDROID_HOME", "DOTNET_ROOT"),
        *(
            "NVM_DIR",
            "VOLTA_HOME",
            "PNPM_HOME",
            "COREPACK_HOME",
            "BUN_INSTALL",
            "DENO_DIR",
            "PYENV_ROOT",
            "PYENV_VERSION",
        ),
        *("CONDA_PREFIX", "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "COMPOSER_HOME"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    )
)
ALLOWED_PREFIXES = ("LC_", "PIP_", "UV_", "npm_config_", "NPM_CONFIG_")
OURS = "INTERLOCK_"
SHORTEST_SECRET = 6

_SECRET_WORD = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(PASS|PAT|PWD|AUTH)(_|$)", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_ENTRY = (
    "import sys; sys.path[:0] = sys.argv.pop(1).splitlines(); sys.argv[0] = 'interlock'; "
    "from interlock.surfaces.cli import main; main()"
)


def for_supervisor(workspace: Workspace, settings: Settings) -> dict[str, str]:
    """What the supervisor of a program of that team is told, and the program does not see."""
    keep = str(settings.get("keep_processes")).replace(",", " ").split()
    known = {RUN_HOME: workspace.home, RUN_TEAM: workspace.name}
    return {**known, RUN_KEEP: ",".join(keep)} if keep else known


def allowed_environment(
    base: Mapping[str, str], *, names: Sequence[str] = (), extra: Mapping[str, str] | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of a member's program, and the values in it that nobody should read.

    `base` is the user's environment, `names` the plan's `env` (one that is not set is left out), `extra` what we set
    ourselves; it wins.

    Raises:
        InvalidRequest: a name is not one of a variable, or is one of Interlock's own.
    """
    check_variables(names)
    passed = {name: value for name, value in base.items() if name in ALLOWED or _is_told(name)}
    added = {name: base[name] for name in names if name in base} | dict(extra or {})
    environment = {**passed, **added}
    secrets = {value for name, value in added.items() if _SECRET_WORD.search(name) and name not in {RUN_TOKEN, "PWD"}}
    for value in environment.values():
        secrets.update(_URL_PASSWORD.findall(value))
    return environment, tuple(sorted(secret for secret in secrets if len(secret.strip()) >= SHORTEST_SECRET))


def _is_told(name: str) -> bool:
    return name.startswith(ALLOWED_PREFIXES) and not _SECRET_WORD.search(name)


def command_directory(team: str) -> str:
    """A directory below `team` whose only program is our own `interlock`, written where it is not there.

    Raises:
        StorageError: it cannot be written.
    """
    where = os.path.join(team, "bin")
    path = os.path.join(where, "interlock")
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    # An installed package is found by itself; a source tree has to be named, before another version is found.
    installed = os.path.basename(source) in ("site-packages", "dist-packages")
    # `-P`: a directory `interlock` in the agent's working directory is not ours.
    words = [sys.executable or "python3", "-P", "-c", _ENTRY, "" if installed else source]
    wanted = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode()
    try:
        with open(path, "rb") as file:
            if file.read() == wanted and os.access(path, os.X_OK):
                return where
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}. Remove it.", path=path) from error
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        files.replace(path, wanted)
        os.chmod(path, 0o700)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
    return where
