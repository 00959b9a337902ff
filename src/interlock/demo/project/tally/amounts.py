"""Amounts of money as people write them."""

from decimal import Decimal, InvalidOperation


def parse_amount(text: str) -> Decimal:
    """The amount in `text`: `1,250.00` is 1250, and `(12.50)`, a refund, is -12.50."""
    cleaned = text.strip().replace(",", "")
    cleaned = cleaned.strip("()")
    try:
        return Decimal(cleaned)
    except InvalidOperation:
        raise ValueError(f"{text!r} is no amount") from None
