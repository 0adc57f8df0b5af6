"""Checksums of FFV1 slices, also in files that were written elsewhere."""

from __future__ import annotations

import av
import numpy as np
import pytest

from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.ffv1 import is_intact

PICTURES = [np.random.default_rng(k).integers(0, 65536, (48, 64), np.uint16) for k in range(4)]


@pytest.fixture
def write(tmp_path):
    def write(**options):
        with av.open(str(tmp_path / "other.mkv"), "w") as container:
            stream = container.add_stream("ffv1", rate=50, options=options)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "gray16le"
            for picture in PICTURES:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="gray16le")))
            container.mux(stream.encode(None))
        return tmp_path / "other.mkv"

    return write


def packets(path):
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


@pytest.mark.parametrize("slices", ["4", "9", "24"])
def test_every_flipped_bit_is_seen(write, slices):
    packet = packets(write(level="3", slices=slices, slicecrc="1"))[0]
    assert is_intact(packet)
    for at in np.random.default_rng(1).integers(0, 8 * len(packet), 400):
        broken = bytearray(packet)
        broken[at // 8] ^= 1 << at % 8
        assert not is_intact(bytes(broken))


def test_a_frame_cut_short_or_lengthened_is_seen(write):
    packet = packets(write(level="3", slices="4", slicecrc="1"))[1]
    for cut in (1, 2, 7, 8, 9, 100, len(packet) // 2):
        assert not is_intact(packet[:-cut])
        assert not is_intact(packet[cut:])
        assert not is_intact(packet + packet[-cut:])


@pytest.mark.parametrize("options", [{"level": "3", "slices": "4", "slicecrc": "0"}, {"level": "1"}], ids=str)
def test_without_checksums_there_is_nothing_to_hold_against_a_file(write, options):
    np.testing.assert_array_equal(decode_all(write(**options)), PICTURES)
