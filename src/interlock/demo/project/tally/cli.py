"""The command line."""

import argparse
import sys

from tally import __version__
from tally.totals import by_category, read


def main(arguments: list[str] | None = None) -> int:
    """Print the totals of a file; the exit code says whether it could be read."""
    parser = argparse.ArgumentParser(prog="tally", description="Add up expenses by category.")
    parser.add_argument("file", help="a CSV file: category,amount")
    parser.add_argument("--share", action="store_true", help="show each category's share of the whole")
    parser.add_argument("--version", action="version", version=f"tally {__version__}")
    options = parser.parse_args(arguments)
    try:
        with open(options.file, encoding="utf-8", newline="") as file:
            totals = by_category(read(file))
    except (OSError, ValueError) as error:
        print(f"tally: {options.file}: {error}", file=sys.stderr)
        return 1
    whole = sum(totals.values())
    for category, total in totals.items():
        share = f"  {total / whole:6.1%}" if options.share and whole else ""
        print(f"{category:<12}{total:>12,.2f}{share}")
    print(f"{'total':<12}{whole:>12,.2f}")
    return 0
