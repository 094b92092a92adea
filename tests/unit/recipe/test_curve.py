"""Curves over epochs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.recipe.curve import bounds, end_fault, momentum_in_step, piece_at, seam_faults, value_at, value_in_step
from dawnrun.recipe.pieces import Curve, Segment

SHAPES = ["linear", "cosine", "linear_cosine", "polynomial", "exponential"]


def piece(first, last, start, end, shape="linear", power=2.0):
    return Segment(epochs=(first, last), start=start, end=end, shape=shape, power=power)


def test_number_is_the_same_everywhere():
    """A number is a constant curve."""
    curve = Curve(constant=0.9)
    assert [value_at(curve, position) for position in (0.0, 1.5, 90.0)] == [0.9] * 3
    assert piece_at(curve, 3) == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_ends_are_exact(shape):
    """The end of a piece is its end value to the last bit, whatever the shape."""
    curve = Curve(segments=(piece(0.3, 7.1, 0.1, 0.7, shape),))
    assert value_at(curve, 0.3) == 0.1
    assert value_at(curve, 7.1) == 0.7


@pytest.mark.parametrize(
    ("shape", "middle"),
    [
        ("linear", 1.1),
        ("cosine", 0.2 + 1.8 * (1 + math.cos(math.pi / 2)) / 2),
        ("linear_cosine", 0.2 + 1.8 * 0.5 * 0.5),
        ("polynomial", 0.2 + 1.8 * 0.25),
        ("exponential", math.sqrt(2.0 * 0.2)),
    ],
)
def test_halfway(shape, middle):
    """Half-way from 2 to 0.2 by the written formula."""
    assert value_at(Curve(segments=(piece(2, 6, 2.0, 0.2, shape),)), 4.0) == pytest.approx(middle, rel=1e-15)


def test_quarter_of_the_way():
    """A point where cosine and linear cosine differ from a straight line, by hand: cos(pi / 4) = 1 / sqrt(2)."""
    eased = (1 + 1 / math.sqrt(2)) / 2
    for shape, share in [("cosine", eased), ("linear_cosine", 0.75 * eased), ("polynomial", 0.75**2)]:
        assert value_at(Curve(segments=(piece(0, 4, 8.5, 0.5, shape),)), 1.0) == pytest.approx(
            0.5 + 8 * share, rel=1e-14
        )


def test_power_of_a_polynomial():
    """`power` is the exponent."""
    assert value_at(Curve(segments=(piece(0, 2, 8.0, 0.0, "polynomial", 3.0),)), 1.0) == 1.0


@given(
    st.sampled_from(SHAPES),
    st.floats(0.001, 100),
    st.floats(0.001, 100),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_pieces_run_from_start_to_end(shape, start, end, one, other):
    """Every shape is monotonic and stays between its two values."""
    curve = Curve(segments=(piece(0, 1, start, end, shape),))
    near, far = sorted((value_at(curve, min(one, other)), value_at(curve, max(one, other))), reverse=start > end)
    slack = 1e-12 * max(start, end)
    assert min(start, end) - slack <= min(near, far) and max(near, far) <= max(start, end) + slack
    ordered = (value_at(curve, min(one, other)) - value_at(curve, max(one, other))) * (1 if start > end else -1)
    assert ordered >= -slack


def test_boundary_belongs_to_the_piece_that_starts_there():
    """At a boundary the next piece is read, unless the step began before it."""
    curve = Curve(segments=(piece(0, 2, 1, 2), piece(2, 4, 10, 20)))
    assert value_at(curve, 2.0) == 10
    assert value_at(curve, 2.0, within=1.9) == 2
    assert [piece_at(curve, position) for position in (0, 1.99, 2, 3, 4)] == [0, 0, 1, 1, 1]


def test_read_at_the_end_and_at_the_start_of_a_step():
    """C07: step k of n is read at (k + 1) / n or k / n, in the piece in which the step starts."""
    pieces = (piece(0, 2, 0, 2), piece(2, 4, 10, 20))
    at_end, at_start = Curve(segments=pieces), Curve(segments=pieces, read_at="step_start")
    assert [value_in_step(at_end, 1, k, 4) for k in range(4)] == [1.25, 1.5, 1.75, 2.0]
    assert [value_in_step(at_start, 1, k, 4) for k in range(4)] == [1.0, 1.25, 1.5, 1.75]
    assert value_in_step(at_end, 2, 0, 4) == 11.25
    assert value_in_step(at_start, 2, 0, 4) == 10


def test_boundary_inside_a_step():
    """A step that begins before a boundary and ends behind it takes the old piece's end."""
    curve = Curve(segments=(piece(0, 0.3, 0, 3), piece(0.3, 1, 10, 10)))
    assert [value_in_step(curve, 0, k, 2) for k in range(2)] == [3, 10]


@pytest.mark.parametrize(
    ("ranges", "faults"),
    [
        ([(0, 2), (2, 5)], []),
        ([(1, 5)], [(0, "no piece covers epochs 0 to 1")]),
        ([(0, 2), (3, 5)], [(1, "no piece covers epochs 2 to 3")]),
        ([(0, 3), (2, 5)], [(1, "epochs 2 to 3 are covered twice; pieces follow one another")]),
        ([(0, 4), (1, 2), (4, 5)], [(1, "epochs 1 to 2 are covered twice; pieces follow one another")]),
        ([(0, 4.5)], [(0, "no piece covers epochs 4.5 to 5, the last of the phases")]),
        ([(0, 6)], [(0, "ends at epoch 6, but the phases have 5 epochs together")]),
        (
            [(1, 2), (2, 7)],
            [(0, "no piece covers epochs 0 to 1"), (1, "ends at epoch 7, but the phases have 5 epochs together")],
        ),
    ],
)
def test_coverage(ranges, faults):
    """Gaps, overlaps and a wrong end are named by their epochs."""
    curve = Curve(segments=tuple(piece(first, last, 1, 1) for first, last in ranges))
    end = end_fault(curve, 5)
    assert [*seam_faults(curve), *([(len(ranges) - 1, end)] if end else [])] == faults


def test_number_covers_everything():
    """A constant curve has no faults."""
    assert list(seam_faults(Curve(constant=1))) == []
    assert end_fault(Curve(constant=1), 5) is None


def steps_piece(**changes):
    """From 3.2 at epoch 5, divided by ten at 30, 60 and 80."""
    return Segment(**{"epochs": (5, 90), "start": 3.2, "shape": "steps", "at": (30, 60, 80), **changes})


def test_steps():
    """The value is multiplied at each epoch named; the end follows; a step that begins before keeps the old value."""
    curve = Curve(segments=(piece(0, 5, 0, 3.2), steps_piece()))
    values = [value_at(curve, position) for position in (5, 29.99, 30, 59, 60, 80, 89.5)]
    assert values == pytest.approx([3.2, 3.2, 0.32, 0.32, 0.032, 0.0032, 0.0032], rel=1e-15)
    assert [value_in_step(curve, 29, 1, 2), value_in_step(curve, 30, 0, 2)] == pytest.approx([3.2, 0.32])
    assert curve.segments[1].end == pytest.approx(0.0032) and value_in_step(curve, 89, 1, 2) == curve.segments[1].end
    assert Curve.model_validate(curve.model_dump(mode="json")) == curve


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"at": ()}, "a steps piece needs at"),
        ({"at": (60, 30)}, "a steps piece needs at"),
        ({"at": (5, 30)}, "at must lie inside the piece, between 5 and 90"),
        ({"at": (30, 90)}, "at must lie inside the piece"),
        ({"end": 0.1}, "these steps lead to 0.0032, not 0.1"),
        ({"shape": "linear", "end": 1}, "at belongs to a piece of shape steps, not linear"),
    ],
)
def test_steps_that_make_no_sense(changes, words):
    """Each is told in words."""
    with pytest.raises(ValueError, match=words):
        steps_piece(**changes)


def test_momentum_mirrors_the_rate():
    """By hand: 0.98 at the lowest rate of the run, 0.90 at the highest, straight in between, read where lr is read."""
    momentum = Curve.model_validate({"mirror": {"low": 0.9, "high": 0.98}})
    for read_at, shift in (("step_end", 1), ("step_start", 0)):
        lr = Curve(segments=(piece(0, 2, 0.5, 8.5), piece(2, 4, 8.5, 0.5)), read_at=read_at)
        seen = [momentum_in_step(momentum, lr, epoch, k, 2) for epoch in range(4) for k in range(2)]
        along = [(step + shift) / 4 for step in range(8)]
        assert seen == pytest.approx([0.98 - 0.08 * (a if a <= 1 else 2 - a) for a in along], rel=1e-14)
    assert bounds(lr) == (0.5, 8.5) and bounds(Curve(constant=0.3)) == (0.3, 0.3)
    assert momentum_in_step(Curve(constant=0.9), lr, 3, 0, 2) == 0.9
    assert Curve.model_validate(momentum.model_dump(mode="json")) == momentum
