"""What Lighthouse finds on a board of 2,000 tasks: the part of it that does not depend on how busy the machine is.

Its performance score is made of times, and those of a loaded machine say nothing about the page: `make bench` prints it
(`bench/lighthouse.py`). Held here is what the score comes from, and can be counted: bytes, requests and elements.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench import lighthouse
from tests import pinned

pytestmark = [pytest.mark.long, pytest.mark.npm]

CATEGORIES = ("accessibility", "best-practices")
COUNTED = ("dom-size", "network-requests", "total-byte-weight")
OPTIONS = (f"--only-categories={','.join(CATEGORIES)}", f"--only-audits={','.join(COUNTED)}")


@pytest.mark.usefixtures("program")
def test_a_board_of_two_thousand_tasks_is_accessible_and_light_on_a_desktop_and_on_a_phone(tmp_path: Path) -> None:
    pinned.home("lighthouse")
    with lighthouse.board(tmp_path) as (url, cookie), ThreadPoolExecutor(len(lighthouse.DEVICES)) as both:
        reports = both.map(lambda device: lighthouse.audit(url, cookie, device, OPTIONS), lighthouse.DEVICES)
        for device, report in zip(lighthouse.DEVICES, reports, strict=True):
            audits = report["audits"]
            faults = {
                name: [item.get("node", item) for item in (audits[name].get("details") or {}).get("items", [])][:3]
                for category in CATEGORIES
                for name in (one["id"] for one in report["categories"][category]["auditRefs"])
                if audits[name]["score"] == 0
            }
            for category in CATEGORIES:
                assert lighthouse.points(report, category) >= lighthouse.GOAL, (device, faults)
            assert audits["dom-size"]["numericValue"] < 2500, device
            assert audits["total-byte-weight"]["numericValue"] < 100_000, device
            assert len(audits["network-requests"]["details"]["items"]) < 40, device
