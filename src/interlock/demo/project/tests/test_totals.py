"""Totals by category."""

import unittest
from decimal import Decimal

from tally.totals import by_category, read


class Totals(unittest.TestCase):
    """Reading and adding up."""

    def test_categories_are_added_up_the_largest_first(self) -> None:
        expenses = [("food", Decimal(5)), ("travel", Decimal(20)), ("food", Decimal(7))]
        self.assertEqual(list(by_category(expenses).items()), [("travel", Decimal(20)), ("food", Decimal(12))])

    def test_blank_lines_are_ignored(self) -> None:
        self.assertEqual(read(["category,amount\n", "\n", "food,5\n"]), [("food", Decimal(5))])

    def test_a_line_that_cannot_be_read_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "line 2"):
            read(["category,amount\n", "food,much\n"])
