"""Runs dist/tally.pyz on expenses.csv and compares the totals with what they must be, refunds included."""

import subprocess
import sys

WANTED = {"travel": "1,080.00", "food": "40.50", "books": "20.00", "total": "1,140.50"}


def main() -> int:
    """Run and compare; the exit code says whether the totals are right."""
    command = [sys.executable, "dist/tally.pyz", "expenses.csv"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print(printed, end="")
    found = dict(line.split() for line in printed.splitlines())
    if found != WANTED:
        print(f"expected {WANTED}")
        return 1
    print("OK")
    return 0


if __name__ == "__main__":
    sys.exit(main())
