"""Layouts: which ones exist, how much memory they take, and their Python source."""

from __future__ import annotations

import pytest
import torch

from harness.layout import check_layout, layout_to_python, row_major, span


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 4), (1, 5, 1), (2, 3, 4)])
def test_row_major_strides_are_those_of_a_new_tensor(shape: tuple[int, ...]) -> None:
    assert row_major(shape) == torch.empty(shape).stride()


@pytest.mark.parametrize(
    ("shape", "strides", "elements"),
    [((3,), (1,), 3), ((3, 4), (1, 5), 18), ((2, 3), (0, 0), 1), ((2, 0), (7, 1), 0), ((), (), 1), ((1, 1), (9, 9), 1)],
)
def test_a_span_goes_from_the_first_element_to_the_last(
    shape: tuple[int, ...], strides: tuple[int, ...], elements: int
) -> None:
    assert span(shape, strides) == elements


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3), ()), ((2, 3), (3, 1)), ((2, 3), (1, 2)), ((2, 3), (1, 9)), ((4, 3, 2), (13, 1, 5)), ((1, 3), (1, 1))],
)
def test_a_layout_without_overlap_is_accepted(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    check_layout(shape, strides, 3)
    room = torch.zeros(3 + span(shape, strides or row_major(shape)))
    room.as_strided(shape, strides or row_major(shape), 3).fill_(1)
    assert int(room.sum()) == torch.Size(shape).numel()


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "words"),
    [
        ((2, 3), (), -1, "offset -1"),
        ((2, 3), (1,), 0, "do not belong to shape"),
        ((2, 3), (2, 1), 0, "overlap"),
        ((2, 3), (1, 1), 0, "overlap"),
        ((2,), (0,), 0, "overlap"),
        ((2,), (-1,), 0, "overlap"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        check_layout(shape, strides, offset)


@pytest.mark.parametrize(("strides", "offset"), [((), 0), ((), 3), ((1, 5), 0), ((1, 2), 7), ((4, 1), 1)])
def test_python_source_of_a_layout_makes_it(strides: tuple[int, ...], offset: int) -> None:
    elements = torch.arange(6.0).reshape(2, 3)
    source = layout_to_python("elements", (2, 3), strides, offset, dtype="torch.float32", device="cpu")
    made = eval(source, {"torch": torch, "elements": elements})
    assert torch.equal(made, elements)
    assert made.stride() == (strides or (3, 1))
    assert made.storage_offset() == offset


def test_a_tensor_on_another_device_is_laid_out_there() -> None:
    # A copy to another device keeps neither gaps nor the place of the first element.
    plain = layout_to_python("t", (2,), (), 0, dtype="torch.int32", device="cuda")
    assert plain == 't.to("cuda")'
    strided = layout_to_python("t", (2,), (3,), 1, dtype="torch.int32", device="cuda")
    assert strided == 'torch.empty(5, dtype=torch.int32, device="cuda").as_strided([2], [3], 1).copy_(t)'


@pytest.mark.parametrize(("strides", "offset"), [((1, 2**60), 0), ((1, 2**38), 0), ((), 2**45), ((), 2**70)])
def test_a_tensor_that_no_machine_can_hold_is_refused(strides: tuple[int, ...], offset: int) -> None:
    with pytest.raises(ValueError, match="elements of memory"):
        check_layout((2, 3), strides, offset)
