"""Takes the pictures of the page that the documentation shows, from a real server over a home with a morning's work.

    python scripts/screenshots.py [DIRECTORY]        docs/images by default

Needs playwright and a Chromium of the system (Debian and Ubuntu: apt-get install chromium).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import interlock
from scripts import seeded_run
from scripts.chromium import WANTED, chromium
from scripts.seeded_home import fill

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "--no-sandbox --headless --disable-gpu --no-first-run --disable-background-networking --disable-sync".split()
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 375, "height": 740}
SETTLED_MS = 400
WORDS = "Description"
"""The chunk of a picture that holds its words."""

PICTURES: tuple[tuple[str, str, Any, Any], ...] = (
    ("page", "/projects/harbour-api", WIDE, "light"),
    ("page-board", "/projects/harbour-api/board", {"width": 1440, "height": 800}, "light"),
    ("page-task", "/projects/harbour-api/tasks/{tokens}", WIDE, "dark"),
    ("page-run", "/projects/harbour-api/workflows/{story}", {"width": 1280, "height": 1180}, "light"),
    ("page-phone", "/projects/harbour-api/tasks/{question}", PHONE, "light"),
)
"""Name, address, size and colours of each."""


def main(directory: Path) -> None:
    """Take them all."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        sys.exit(f"This needs {WANTED}.")
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        home = interlock.connect(f"{place}/home")
        fill(home, place)
        story, _ = seeded_run.add(home, "harbour-api", Path(place) / "project")
        team = home.team("harbour-api")
        ids = {"tokens": team.tasks(status="in-progress")[0].id, "question": team.questions()[0].task_id,
               "story": story}  # fmt: skip
        home.close()
        command = [sys.executable, "-m", "interlock.surfaces.cli", "--home", f"{place}/home", "--json", "up"]
        server = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            served: dict[str, Any] = json.loads(server.stdout.readline())
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=program, args=FLAGS)
                page = browser.new_page()
                page.goto(served["link"])
                page.wait_for_selector("[data-link]")
                cookies = page.context.storage_state()
                for name, address, size, colours in PICTURES:
                    page = browser.new_page(
                        viewport=size, color_scheme=colours, storage_state=cookies,
                        device_scale_factor=2 if size is PHONE else 1,
                    )  # fmt: skip
                    page.goto(served["url"] + address.format(**ids))
                    page.wait_for_selector("[data-link]:text('live')")
                    page.wait_for_timeout(SETTLED_MS)
                    path = directory / f"{name}.png"
                    page.screenshot(path=path)
                    print(_smaller(path, worded(page.inner_text("body"))))
        finally:
            server.terminate()
            server.communicate()


def worded(text: str) -> str:
    """The words of a page: no numbers, times or names that differ from run to run."""
    text = re.sub(r"\S*/tmp\w+|just now|#+[a-z]* ago", "…", re.sub(r"\d+", "#", text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def words_of(path: Path) -> str:
    """What a picture showed when it was taken."""
    from PIL import Image

    with Image.open(path) as picture:
        return str(picture.info[WORDS])


def _smaller(path: Path, words: str) -> Path:
    """The same picture with 128 colours, a third of the size, and with its words, for whoever asks whether it is true
    still."""
    from PIL import Image, PngImagePlugin

    info = PngImagePlugin.PngInfo()
    info.add_itxt(WORDS, words)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=info)
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
