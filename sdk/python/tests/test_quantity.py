"""Quantities of resources."""

from __future__ import annotations

import unittest
from decimal import Decimal

from windlass.quantity import format_quantity, parse_quantity


class QuantityTest(unittest.TestCase):
    def test_the_amount_is_exact(self) -> None:
        for text, amount in [
            ("0", "0"),
            ("500m", "0.5"),
            ("0.1", "0.1"),
            ("1.5Gi", "1610612736"),
            ("2k", "2000"),
            ("1e3", "1000"),
            ("12E-1", "1.2"),
            ("1E", "1000000000000000000"),
            ("1Ei", "1152921504606846976"),
            ("-100u", "-0.0001"),
            ("5.", "5"),
            (".5", "0.5"),
        ]:
            self.assertEqual(parse_quantity(text), Decimal(amount), text)
        self.assertEqual(parse_quantity(2), Decimal(2))

    def test_an_invalid_quantity_is_named(self) -> None:
        for text in ["", ".", "-", "1.2.3", "1K", "1kb", "1 Gi", "Gi", "1e", "1e999", "0x1", "NaN", "١", "9" * 65]:
            with self.assertRaisesRegex(ValueError, "is not a quantity, which is like '500m'"):
                parse_quantity(text)

    def test_an_amount_is_written_with_the_given_suffix(self) -> None:
        self.assertEqual(format_quantity(Decimal("0.5"), "m"), "500m")
        self.assertEqual(format_quantity(Decimal("1610612736"), "Gi", Decimal("0.1")), "1.5Gi")
        self.assertEqual(format_quantity(Decimal("1610612736"), "Mi"), "1536Mi")
        self.assertEqual(format_quantity(Decimal("0.0001"), "m"), "1m")
        self.assertEqual(format_quantity(3), "3")
        with self.assertRaisesRegex(ValueError, "'K' is not the suffix"):
            format_quantity(1, "K")


if __name__ == "__main__":
    unittest.main()
