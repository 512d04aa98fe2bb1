"""`millrace verify codec`: a short run finds nothing; a decoder that is broken on purpose is found."""

import argparse
import json

import numpy as np
import pytest

from services.codec.chunks import ChunkCodec, Decoded
from services.codec.errors import DecodeError, Malformed
from services.verify import codec
from services.verify.codec_inputs import MUTATIONS

REACHED = {reason.name for reason in Malformed} - {"BAD_FRAME", "NOT_READ"}


def test_mutated_inputs_give_typed_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert codec.run(argparse.Namespace(inputs=20_000, seed=1, json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"] == 20_000 == report["accepted"] + sum(report["refused"].values())
    assert set(report["refused"]) == REACHED
    assert set(report["mutations"]) == {"none"} | {name for name, _ in MUTATIONS}
    assert report["accepted"] > 1_000


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second, other = (codec.verify(300, seed) for seed in (3, 3, 4))
    assert first.reasons == second.reasons != other.reasons


def _trust_trailing_bytes(self: ChunkCodec, body: bytes) -> Decoded:
    try:
        return plain_decode(self, body)
    except DecodeError as error:
        if error.reason is not Malformed.TRAILING_BYTES:
            raise
        return plain_decode(self, body[: error.offset])


def _flip_a_number(self: ChunkCodec, body: bytes) -> Decoded:
    found = plain_decode(self, body)
    for columns in found.columns.values():
        if len(columns.get("seq", ())):
            columns["seq"] = np.array(columns["seq"]) ^ 1  # type: ignore[arg-type]
    return found


def _lose_the_type(self: ChunkCodec, body: bytes) -> Decoded:
    try:
        return plain_decode(self, body)
    except DecodeError as error:
        raise ValueError(str(error)) from error


def _shift_the_offset(self: ChunkCodec, body: bytes) -> Decoded:
    try:
        return plain_decode(self, body)
    except DecodeError as error:
        raise DecodeError(error.reason, error.offset + 1) from error


plain_decode = ChunkCodec.decode


@pytest.mark.parametrize("broken", [_trust_trailing_bytes, _flip_a_number, _lose_the_type, _shift_the_offset])
def test_a_broken_decoder_is_found(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkCodec, "decode", broken)
    assert codec.verify(5_000, 1).failure is not None
