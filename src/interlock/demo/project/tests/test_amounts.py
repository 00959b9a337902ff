"""Amounts as people write them."""

import unittest
from decimal import Decimal

from tally.amounts import parse_amount


class Amounts(unittest.TestCase):
    """What `parse_amount` makes of a text."""

    def test_a_plain_amount(self) -> None:
        self.assertEqual(parse_amount(" 12.50 "), Decimal("12.50"))

    def test_a_thousands_separator(self) -> None:
        self.assertEqual(parse_amount("1,250.00"), Decimal("1250.00"))

    def test_an_amount_in_parentheses_is_a_refund(self) -> None:
        self.assertEqual(parse_amount("(12.50)"), Decimal("-12.50"))

    def test_anything_else_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            parse_amount("twelve")
