"""What a run notes while it goes on: reported at once, and no part of its result."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skillyard.sandbox.run_output import NoteReader

_NOTE = st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3)


@given(st.lists(_NOTE, max_size=6), st.one_of(st.none(), _NOTE), st.lists(st.integers(1, 40), max_size=40))
def test_notes_are_taken_out_however_the_pieces_fall(notes: list[object], result: object, cuts: list[int]) -> None:
    outcome = b"" if result is None else json.dumps(result).encode()
    data = b"".join(b"\x1e" + json.dumps(note).encode() + b"\n" for note in notes) + outcome
    reported: list[str] = []
    taking, rest, at = NoteReader(reported.append, ()), b"", 0
    for size in [*cuts, len(data)]:
        rest += taking.split_notes(data[at : at + size])
        at += size
    assert (rest, [json.loads(one) for one in reported]) == (outcome, notes)


@given(st.binary(max_size=200))
def test_a_result_that_begins_with_no_note_is_left_as_it_is(data: bytes) -> None:
    taking = NoteReader(None, ())
    if not data.startswith(b"\x1e"):
        assert taking.split_notes(data) + taking.split_notes(b"\x1e{}\n") == data + (b"\x1e{}\n" if data else b"")


def test_secrets_are_not_reported_and_a_flood_is_no_note() -> None:
    reported: list[str] = []
    taking = NoteReader(reported.append, ("hunter2",))
    assert taking.split_notes(b'\x1e{"password": "hunter2"}\n') == b""
    assert "hunter2" not in reported[0]
    assert len(taking.split_notes(b"\x1e" + b"x" * 10_000)) > 8192
