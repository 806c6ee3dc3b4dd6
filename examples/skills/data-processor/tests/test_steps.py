"""What each step does on its own."""

import sys
import unittest

sys.path.insert(0, "scripts")
from steps import analyze, clean, clean_value, validate


class Steps(unittest.TestCase):
    def test_only_records_with_fields_are_valid(self):
        self.assertEqual(validate([{"a": 1}, {}, None, 7]), [{"a": 1}])

    def test_values_are_read_as_people_write_them(self):
        self.assertEqual([clean_value(text) for text in ("1,200", " 3.5 ", "n/a", "01")], [1200, 3.5, None, "01"])

    def test_the_same_record_counts_once(self):
        self.assertEqual(clean([{"n": "1"}, {"n": 1}]), [{"n": 1}])

    def test_flags_are_no_numbers(self):
        self.assertEqual(analyze([{"ok": True}, {"ok": False}])["fields"]["ok"]["kind"], "boolean")


unittest.main()
