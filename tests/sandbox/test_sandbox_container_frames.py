"""Frames between Skillyard and a container: whatever pieces they come in, and whatever comes instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.sandbox.container_frames import LONGEST, FrameReader, InvalidFrame, frame

FRAMES = st.lists(st.tuples(st.binary(min_size=1, max_size=1), st.integers(0, 65_535), st.binary(max_size=300)), max_size=8)


@given(FRAMES, st.integers(1, 40))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(frames: list[tuple[bytes, int, bytes]], size: int) -> None:
    data = b"".join(frame(kind, payload, number) for kind, number, payload in frames)
    reader = FrameReader()
    found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
    assert found == frames


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_are_refused_or_waited_for(data: bytes) -> None:
    reader = FrameReader()
    try:
        found = reader.feed(data)
    except InvalidFrame:
        return
    assert sum(7 + len(payload) for _, _, payload in found) <= len(data)


def test_a_frame_that_says_it_is_too_long_is_not_waited_for() -> None:
    with pytest.raises(InvalidFrame):
        FrameReader().feed(frame(b"1", b"")[:3] + (LONGEST + 1).to_bytes(4, "big"))
