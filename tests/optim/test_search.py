import math

import pytest
import torch

from ttray.optim.line_search import LINE_SEARCHES, HalfLine
from ttray.optim.search import maximise
from ttray.settings.training import SearchSettings


class Quadratic:
    """−½ (x − top)ᵀ diag(curvature) (x − top), with optional bad regions."""

    def __init__(self, top, curvature, *, value_is_bad=None, gradient_is_bad=None):
        self.top = torch.tensor(top, dtype=torch.float64)
        self.curvature = torch.tensor(curvature, dtype=torch.float64)
        self.value_is_bad = value_is_bad or (lambda x: False)
        self.gradient_is_bad = gradient_is_bad or (lambda x: False)
        self.evaluated = []

    def value(self, x):
        self.evaluated.append(x.clone())
        if self.value_is_bad(x):
            return self.bad_value
        return float(-0.5 * (self.curvature * (x - self.top) ** 2).sum())

    def gradient(self, x):
        if self.gradient_is_bad(x):
            return torch.full_like(x, math.nan)
        return -self.curvature * (x - self.top)

    bad_value = -math.inf


@pytest.fixture(params=sorted(LINE_SEARCHES))
def line_search(request):
    return request.param


def zeros(size):
    return torch.zeros(size, dtype=torch.float64)


def test_finds_the_maximum_of_a_quadratic(line_search):
    objective = Quadratic([3.0, -2.0], [1.0, 4.0])
    settings = SearchSettings(200, line_search, gradient_tolerance=1e-6, gain_tolerance=1e-14)
    result = maximise(objective, zeros(2), settings)
    assert torch.allclose(result.parameters, objective.top, atol=1e-4)
    assert result.value_after == pytest.approx(0.0, abs=1e-8)
    assert result.gain == pytest.approx(0.5 * (9 + 4 * 4))


def test_parabola_is_exact_on_a_one_dimensional_quadratic():
    # The predicted gain of ε = 1 is 1; the true top is at ε = ‖g‖² / (gᵀHg / ‖g‖²) = 9 here.
    objective = Quadratic([3.0], [1.0])
    result = maximise(objective, zeros(1), SearchSettings(num_offline_iterations=1, line_search="parabola"))
    assert result.step_sizes[0] == pytest.approx(9.0)
    assert result.parameters.item() == pytest.approx(3.0)


class Line:
    """A function of the step size along one line, as an objective of one parameter."""

    def __init__(self, function):
        self.function, self.sizes = function, []

    def value(self, x):
        self.sizes.append(float(x))
        return self.function(float(x))


LINES = {
    "parabola": lambda s: s - s**2 / 18.0,
    "bends down ever faster": lambda s: s - 0.02 * s**2 - 0.001 * (math.exp(s) - 1.0 - s),
    "short": lambda s: 0.02 * (1.0 - math.exp(-50.0 * s)) - 0.3 * s**2,
    "a kink": lambda s: min(s, 2.0) - 0.3 * max(s - 2.0, 0.0),
    "ends": lambda s: s if s < 3.0 else -math.inf,
    "sinks from the start": lambda s: 0.001 * math.sin(1000.0 * s) - 2.0 * s,
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("first_size", [0.05, 1.0, 30.0])
def test_the_cubic_gains_as_much_as_the_parabola(name, first_size):
    common = {"gain_tolerance": 1e-4, "max_evaluations": 30}
    start, direction = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    line, other = Line(LINES[name]), Line(LINES[name])
    found = LINE_SEARCHES["cubic"].find(
        HalfLine(line, start, direction, 0.0), first_size=first_size, **common
    )
    books = LINE_SEARCHES["parabola"].find(HalfLine(other, start, direction, 0.0), first_size=1.0, **common)
    assert found.gain >= (0.75 if name == "a kink" else 0.98) * books.gain - 1e-4
    assert found.gain == max(0.0, *map(LINES[name], line.sizes))
    assert found.num_evaluations == len(line.sizes) <= max(len(other.sizes), 12)


def test_reported_step_is_the_accepted_one(line_search):
    objective = Quadratic([3.0, -2.0], [1.0, 4.0])
    result = maximise(objective, zeros(2), SearchSettings(num_offline_iterations=1, line_search=line_search))
    gradient = objective.gradient(zeros(2))
    expected = result.step_sizes[0] * gradient / gradient.square().sum()
    assert torch.equal(result.parameters, expected)
    assert result.value_after == pytest.approx(objective.value(result.parameters), abs=1e-12)


def test_counts_are_what_the_objective_saw(line_search):
    objective = Quadratic([3.0, -2.0], [1.0, 4.0])
    result = maximise(objective, zeros(2), SearchSettings(num_offline_iterations=4, line_search=line_search))
    assert result.num_evaluations == len(objective.evaluated)
    assert result.num_gradients == 4 == len(result.step_sizes)
    assert result.stop_reason == "max_iterations"


def test_stops_at_a_small_gradient(line_search):
    result = maximise(Quadratic([0.0], [1.0]), zeros(1), SearchSettings(line_search=line_search))
    assert result.stop_reason == "small_gradient"
    assert result.step_sizes == ()
    assert result.gain == 0.0


def test_stops_at_a_small_gain(line_search):
    result = maximise(Quadratic([0.01], [1.0]), zeros(1), SearchSettings(line_search=line_search))
    assert result.stop_reason == "small_gain"
    assert 0.0 <= result.gain < 1e-4


@pytest.mark.parametrize("bad", [-math.inf, math.inf, math.nan])
def test_nonfinite_values_are_rejected_and_counted(line_search, bad):
    objective = Quadratic([3.0], [1.0], value_is_bad=lambda x: bool(x > 2.0))
    objective.bad_value = bad
    result = maximise(objective, zeros(1), SearchSettings(num_offline_iterations=3, line_search=line_search))
    assert result.num_nonfinite_rejected > 0
    assert 0.0 < result.parameters.item() <= 2.0
    assert math.isfinite(result.value_after)
    assert result.gain > 0.0


def test_values_that_are_never_finite_leave_the_start(line_search):
    objective = Quadratic([3.0], [1.0], value_is_bad=lambda x: bool(x != 0.0))
    start = zeros(1)
    result = maximise(objective, start, SearchSettings(line_search=line_search))
    assert torch.equal(result.parameters, start)
    assert result.parameters is not start
    assert result.stop_reason == "small_gain"
    assert result.num_nonfinite_rejected == 30


def test_nonfinite_gradient_leaves_the_last_good_parameters(line_search):
    objective = Quadratic([3.0, -2.0], [1.0, 4.0], gradient_is_bad=lambda x: bool(x.abs().max() > 0))
    result = maximise(objective, zeros(2), SearchSettings(line_search=line_search))
    assert result.stop_reason == "nonfinite_gradient"
    assert result.num_nonfinite_rejected == 1
    assert len(result.step_sizes) == 1
    assert objective.value(result.parameters) == pytest.approx(result.value_after)


def test_a_worse_candidate_is_never_accepted(line_search):
    # The gradient lies: it points uphill where the objective falls.
    objective = Quadratic([0.0], [1.0])
    objective.gradient = lambda x: torch.ones_like(x)
    start = torch.zeros(1, dtype=torch.float64)
    result = maximise(objective, start, SearchSettings(line_search=line_search))
    assert torch.equal(result.parameters, start)
    assert result.step_sizes == (0.0,)


def test_nonfinite_start_is_a_clear_error():
    objective = Quadratic([3.0], [1.0], value_is_bad=lambda x: True)
    with pytest.raises(ValueError, match="objective is -inf at the start"):
        maximise(objective, zeros(1), SearchSettings())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"line_search": "golden"},
            "line_search must be one of cubic, parabola, binary, geometric, found 'golden'",
        ),
        ({"line_search": []}, r"line_search must be one of cubic, parabola, binary, geometric, found \[\]"),
        ({"num_offline_iterations": 0}, "num_offline_iterations must be an integer, at least 1, found 0"),
        ({"num_offline_iterations": 2.0}, "num_offline_iterations must be an integer, at least 1, found 2.0"),
        ({"gradient_tolerance": -1.0}, "gradient_tolerance must be a finite number, at least 0, found -1.0"),
        ({"gain_tolerance": math.nan}, "gain_tolerance must be a finite number, at least 0, found nan"),
        ({"max_line_search_evaluations": 0}, "max_line_search_evaluations must be an integer, at least 1"),
    ],
)
def test_bad_settings_are_value_errors(change, message):
    with pytest.raises(ValueError, match=message):
        SearchSettings(**change)
