"""Where the browser is that pictures are taken with and pages are tried in."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
WANTED = "Chromium (Debian and Ubuntu: apt-get install chromium)"


def chromium() -> str | None:
    """Return the path of the system's own; playwright's download is not wanted. None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)
