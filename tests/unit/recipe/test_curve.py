"""Curves over epochs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.recipe.curve import coverage_faults, piece_at, value_at, value_in_step
from dawnrun.recipe.schema import Curve, Segment

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
    assert list(coverage_faults(curve, 5)) == faults


def test_number_covers_everything():
    """A constant curve has no faults."""
    assert list(coverage_faults(Curve(constant=1), 5)) == []
