"""The list of deliberate bugs moves with the code: `millrace verify mutations` (minutes each) shows that each is found."""

import pytest

from services.verify.mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_deliberate_bug_can_still_be_put_in(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.right) >= 1, f"{mutation.file} no longer has the text that this mistake changes"
    compile(text.replace(mutation.right, mutation.wrong, 1), mutation.file, "exec")


def test_there_are_enough_and_no_two_are_alike() -> None:
    assert len(MUTATIONS) >= 10
    assert len({(mutation.file, mutation.right, mutation.wrong) for mutation in MUTATIONS}) == len(MUTATIONS)
