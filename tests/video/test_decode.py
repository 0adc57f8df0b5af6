"""The right frame for every index, whatever was read before it."""

from __future__ import annotations

import av
import numpy as np
import pytest

from lucky_recorder.errors import VideoError
from lucky_recorder.video.decode import FrameReader, decode_all

FRAMES = 137


@pytest.fixture
def reader(numbered, record):
    with FrameReader(record([numbered.paint(k) for k in range(FRAMES)])) as reader:
        yield reader


def write_with_b_frames(path, pictures):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=50, options={"bf": "3", "g": "24", "crf": "18"})
        stream.height, stream.width, _ = pictures[0].shape
        stream.pix_fmt = "yuv420p"
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


class TestByIndex:
    def test_in_any_order(self, reader, numbered):
        order = np.random.default_rng(3).permutation(FRAMES)
        assert [numbered.read(reader[k]) for k in order] == list(order)

    def test_forwards_backwards_and_in_steps(self, reader, numbered):
        for order in (range(FRAMES), range(FRAMES - 1, -1, -1), range(0, FRAMES, 7), [5, 5, 6, 6, 5]):
            assert [numbered.read(reader[k]) for k in order] == list(order)

    def test_from_the_end(self, reader, numbered):
        assert [numbered.read(reader[k]) for k in (-1, -FRAMES, -2)] == [FRAMES - 1, 0, FRAMES - 2]

    @pytest.mark.parametrize("index", [FRAMES, -FRAMES - 1, 10**9])
    def test_beyond_the_ends(self, reader, index):
        with pytest.raises(IndexError, match=f"frame {index} of {FRAMES} in .*video"):
            reader[index]

    def test_only_whole_numbers(self, reader):
        with pytest.raises(TypeError):
            reader[1.0]

    def test_with_frames_stored_out_of_order(self, tmp_path, numbered):
        path = write_with_b_frames(tmp_path / "foreign.mp4", [numbered.paint(k) for k in range(60)])
        order = np.random.default_rng(4).permutation(60)
        with FrameReader(path) as reader:
            assert reader.info.has_b_frames
            assert [numbered.read(reader[k]) for k in order] == list(order)
            assert [numbered.read(picture) for picture in reader] == list(range(60))


class TestInOrder:
    def test_iterates_once_through(self, reader, numbered):
        assert len(reader) == FRAMES
        assert [numbered.read(picture) for picture in reader] == list(range(FRAMES))

    def test_iteration_and_indexing_do_not_disturb_each_other(self, reader, numbered):
        for k, picture in enumerate(reader):
            assert numbered.read(picture) == k
            if k % 13 == 0:
                assert numbered.read(reader[FRAMES - 1 - k]) == FRAMES - 1 - k

    def test_seeks_only_where_that_saves_work(self, reader, monkeypatch):
        sought = []
        seek = FrameReader._seek
        monkeypatch.setattr(FrameReader, "_seek", lambda self, file, key: (sought.append(key), seek(self, file, key)))
        for k in (0, 1, 4, 9, 10, 11, 19):
            reader[k]
        assert sought == [0]
        for k in (35, 34, 39):
            reader[k]
        assert sought == [0, 30, 30]

    def test_decode_all_is_every_frame(self, reader):
        pictures = decode_all(reader.path)
        assert (pictures.shape, pictures.dtype) == ((FRAMES, 48, 64, 3), np.uint8)
        assert all((pictures[k] == reader[k]).all() for k in range(FRAMES))


class TestPixels:
    @pytest.mark.parametrize("width", [64, 100, 642])
    def test_are_those_of_a_plain_decode(self, numbered, record, width):
        path = record([numbered.paint(k, width) for k in range(12)])
        with av.open(str(path)) as container:
            plain = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert np.abs(decode_all(path).astype(int) - plain).max() <= 1

    def test_belong_to_the_caller(self, numbered, record):
        with FrameReader(record([numbered.paint(k, 100) for k in range(3)])) as reader:
            first = reader[0]
            assert first.flags.c_contiguous
            assert first.flags.writeable
            first[:] = 255
            assert [numbered.read(reader[k]) for k in (1, 0, 2)] == [1, 0, 2]

    def test_belong_to_the_caller_without_conversion_too(self, numbered, tmp_path):
        with av.open(str(tmp_path / "grey.mp4"), "w") as container:
            stream = container.add_stream(
                "libx265", rate=50, options={"tune": "zerolatency", "x265-params": "log-level=0"}
            )
            stream.width, stream.height, stream.pix_fmt = 128, 48, "gray"
            picture = av.VideoFrame.from_ndarray(numbered.paint(85, 128)[..., 0].copy(), format="gray")
            for k in range(3):
                picture.pts = k
                container.mux(stream.encode(picture))
            container.mux(stream.encode(None))
        with FrameReader(tmp_path / "grey.mp4", pixel_format="gray") as reader:
            first = reader[0].copy()
            reader[0][:] = 255 - first
            np.testing.assert_allclose(reader[2], first, atol=12)

    def test_sixteen_bit_grey_is_exact(self, record_grey):
        ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
        pictures = [np.roll(ramp, 1000 * k) for k in range(9)]
        path = record_grey(pictures)
        with FrameReader(path, pixel_format="gray16le") as reader:
            assert (reader.info.codec, reader.info.pix_fmt) == ("ffv1", "gray16le")
            for k in (8, 0, 3, 4, 2):
                assert reader[k].dtype == np.uint16
                np.testing.assert_array_equal(reader[k], pictures[k])
            reader[4][:] = 0
            np.testing.assert_array_equal(decode_all(path, pixel_format="gray16le"), pictures)

    def test_an_unknown_pixel_format_is_named(self, reader):
        with (
            FrameReader(reader.path, pixel_format="rgb25") as other,
            pytest.raises(VideoError, match=r"frame 0: .*rgb25"),
        ):
            other[0]


class TestTrouble:
    def test_a_closed_reader_says_so(self, reader):
        reader[0]
        reader.close()
        reader.close()
        with pytest.raises(VideoError, match="closed"):
            reader[5]

    @pytest.mark.parametrize("part", [slice(None), slice(500, 700)], ids=["whole", "middle"])
    def test_what_is_drawn_over_a_broken_frame_is_no_picture(self, numbered, record, part):
        pictures = [numbered.paint(k, 128, 96) for k in range(30)]
        for k, picture in enumerate(pictures):
            picture[48:] = np.random.default_rng(k).integers(0, 256, (48, 128, 3))
        path = record(pictures)
        spoil(path, 14, part)
        with FrameReader(path) as reader:
            for k in (14, 15, 19, 14, 17):
                with pytest.raises(VideoError, match=f"frame {k}"):
                    reader[k]
            assert [numbered.read(reader[k]) for k in (13, 9, 20, 29)] == [13, 9, 20, 29]

    def test_frames_at_one_time_are_refused(self, record_grey):
        path = record_grey([np.zeros((16, 16), np.uint16)] * 6, step=2)
        with pytest.raises(VideoError, match=r"grey\.mkv: 6 frames have only 3 times between them"):
            FrameReader(path)


def spoil(path, frame, part):
    """Zero a part of one frame's bytes."""
    with av.open(str(path)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][frame]
        place, size = packet.pos, packet.size
    start, stop, _ = part.indices(size)
    with path.open("r+b") as file:
        file.seek(place + start)
        file.write(bytes(stop - start))
