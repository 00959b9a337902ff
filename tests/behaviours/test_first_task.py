"""From nothing to a first verified task in a repository of one's own: two commands, in five minutes, in real packages.

`scripts/first_task.py` measures it, and its table is printed here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.npm
@pytest.mark.timeout(1800)
def test_real_packages_reach_a_first_verified_task_by_two_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dose: float
) -> None:
    # Beside other tests on a loaded machine a small dose shows only that they get there. `make full` takes the one that
    # installs the least: the others need minutes there.
    few = ["npm:deep-is@0.1.4", *(["pypi:iniconfig==2.3.1", "npm:concat-map@0.0.2"] if dose >= 0.1 else [])]
    some = [] if dose >= 1 else ["--within", "1700", *few]
    argv = [sys.executable, str(ROOT / "scripts" / "first_task.py"), "-v", *some]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    with capsys.disabled():
        print(f"\n{ran.stdout}")
    assert ran.returncode == 0, ran.stderr[-2000:]
