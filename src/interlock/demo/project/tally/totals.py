"""Totals by category."""

import csv
from collections.abc import Iterable
from decimal import Decimal

from tally.amounts import parse_amount


def read(lines: Iterable[str]) -> list[tuple[str, Decimal]]:
    """The (category, amount) pairs of a CSV text with a heading line."""
    found = []
    rows = csv.reader(lines)
    next(rows, None)
    for row in rows:
        if not row:
            continue
        if len(row) != 2:
            raise ValueError(f"line {rows.line_num}: expected a category and an amount")
        try:
            found.append((row[0].strip(), parse_amount(row[1])))
        except ValueError as error:
            raise ValueError(f"line {rows.line_num}: {error}") from None
    return found


def by_category(expenses: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """The total of each category, the largest first."""
    totals: dict[str, Decimal] = {}
    for category, amount in expenses:
        totals[category] = totals.get(category, Decimal(0)) + amount
    return dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0])))
