"""Rows 17 and 18: snapshots on a full disk, torn, flipped and missing."""

from __future__ import annotations

import errno

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from services.engine.facts import Cursor, Memory, Tally
from services.engine.snapshots import SnapshotFile, Snapshots


def snapshot(epoch: int) -> SnapshotFile:
    memory = Memory(epoch, 10 * epoch, {0: Cursor(5, frozenset({7}))}, {epoch: frozenset({(0, 1, 2)})}, Tally(3))
    return SnapshotFile(memory, {"epochs": epoch}, bytes(range(40)))


class FullDisk(LocalFileSystem):
    """Every write ends on the device that is always full, after the file was made."""

    protocol = "millrace-full"

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("millrace-full://"))

    def _open(self, path, mode="rb", **options):
        if "w" in mode:
            super()._open(path, mode, **options).close()
            return open("/dev/full", "wb", buffering=0)
        return super()._open(path, mode, **options)


def test_row_17_without_space_the_old_one_is_kept_and_nothing_half_written_stays(tmp_path):
    Snapshots(str(tmp_path)).write(snapshot(3))
    fsspec.register_implementation("millrace-full", FullDisk, clobber=True)
    full = Snapshots(f"millrace-full://{tmp_path}")
    with pytest.raises(OSError) as caught:
        full.write(snapshot(6))
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00000000000000000003.snapshot"]
    assert full.newest() == (snapshot(3), [])


def test_row_18_the_newest_missing_the_one_before_is_used(tmp_path):
    kept = Snapshots(str(tmp_path))
    for epoch in (3, 6, 9):
        kept.write(snapshot(epoch))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2, "the last two are kept"
    (tmp_path / names[1]).unlink()
    assert kept.newest() == (snapshot(6), [])
    (tmp_path / names[0]).unlink()
    assert kept.newest() == (None, [])


def test_row_18_every_truncation_and_every_flipped_bit_is_noticed_and_the_one_before_used(tmp_path):
    kept = Snapshots(str(tmp_path))
    kept.write(snapshot(3))
    kept.write(snapshot(6))
    newest = max(tmp_path.iterdir())
    whole = newest.read_bytes()
    spoilt = [whole[:length] for length in range(len(whole))]
    spoilt += [
        whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :]
        for bit in range(8 * len(whole))
    ]
    for data in [*spoilt, whole + b"\0"]:
        newest.write_bytes(data)
        found, notes = kept.newest()
        assert found == snapshot(3) and len(notes) == 1 and newest.name in notes[0]
    newest.write_bytes(whole)
    assert kept.newest() == (snapshot(6), [])


def test_row_02_a_half_written_file_is_ignored_and_removed_by_the_next_write(tmp_path):
    kept = Snapshots(str(tmp_path))
    kept.write(snapshot(3))
    (tmp_path / "epoch-00000000000000000006.snapshot.part").write_bytes(b"MILLSNAP1\nhalf")
    assert kept.newest() == (snapshot(3), [])
    kept.write(snapshot(9))
    assert not list(tmp_path.glob("*.part"))
