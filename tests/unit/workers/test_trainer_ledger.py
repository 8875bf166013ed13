"""The ledger remembers what was trained, what is closed and what is still open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_workers.trainer.ledger import Book, GroupRecord, Ledger, Member


def record(group: int) -> GroupRecord:
    return GroupRecord(group=group, members=(Member(k=0, attempt=0, fate="trained"),))


def test_a_step_closes_its_groups_and_what_was_admitted_besides_stays_open() -> None:
    book = Book(Ledger(), epoch=1)
    book.train([record(0), record(2)])
    book.give_up(3)
    assert (book.step, book.open_groups(6), book.high_water) == (1, [1, 4, 5], 4)


def test_a_group_cannot_be_closed_twice() -> None:
    book = Book(Ledger(), epoch=1)
    book.train([record(0)])
    with pytest.raises(ValueError, match="group 0 is closed"):
        book.train([record(0)])


def test_a_checkpoint_holds_the_records_since_its_parent_and_the_closed_groups_of_all_time() -> None:
    book = Book(Ledger(), epoch=1)
    book.train([record(0)])
    first = book.to_commit(parent=None)
    book.committed()
    book.train([record(2)])
    book.refeed(4, 1)
    second = book.to_commit(parent="1.1")
    assert [step.step for step in first.steps] == [1]
    assert [step.step for step in second.steps] == [2]
    assert (second.parent, second.closed_below, second.closed, second.refed) == ("1.1", 1, (2,), ((4, 1),))


@given(st.lists(st.integers(0, 30), unique=True))
def test_whatever_the_order_of_closing_a_resumed_book_knows_the_same_groups(order: list[int]) -> None:
    book = Book(Ledger(), epoch=1)
    for group in order:
        book.train([record(group)])
    resumed = Book(Ledger.model_validate_json(book.to_commit(None).model_dump_json()), epoch=2)
    assert resumed.open_groups(31) == [group for group in range(31) if group not in order]
    assert resumed.high_water == max(order, default=-1) + 1
    assert resumed.step == len(order)
