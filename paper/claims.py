"""The claims of the paper, each with a verdict that follows from the data of the figures by a rule.

Two algorithms differ in a case if Welch's 95 % interval of the difference of their final returns leaves out
0; else they are level. A claim about several cases holds if it does in all that are there, in part if in some
and the opposite in none. What has no data yet is "not run".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from paper import markdown
from paper.figures.learning import METHODS, steps_to
from ttray.estimators.intervals import difference_interval
from ttray.runs.comparison import final_return, with_interval
from ttray.runs.curve_pictures import PER_DECISION
from ttray.runs.curves import RETURNS
from ttray.runs.presets import PAPER_PRESETS

Rows = Sequence[Mapping[str, Any]]
Case = tuple[str, float]
"""Preset and discount."""

_LARGE = ("dam", "reacher", "supply-chain")
_ONLY_END_PAYS, _DENSE = "corridor-sparse", "corridor-dense"
_WORDS = {1: "better", 0: "level", -1: "worse"}
_CASES = (
    "",
    "TT-POIS − POIS",
    "the same, undiscounted",
    "per decision − TT-POIS",
    "steps per decision to TT-POIS's end",
)
_NEARLY = 1.01  # "close to the optimum": within one per cent


def tables(results: Path) -> dict[str, list[str]]:
    """Markdown by name: "claims" with their verdicts, and "cases", the differences behind them.

    Args:
        results: With the data of the figures, as `python -m paper` writes them; some may be missing.
    """
    widths, evaluated = (_rows(results, name) for name in ("dcs-widths", "evaluation-on-policy"))
    runs = _runs(row for name in ("main", *PAPER_PRESETS) for row in _rows(results, name))
    discounted, undiscounted = (_differences(runs, column) for column in RETURNS)
    weighted = _differences(runs, RETURNS[0], (PER_DECISION, "TTPOIS"))
    lines = [
        *_of_widths(widths),
        *(_of_evaluation(evaluated, kind) for kind in ("on-policy", "off-policy")),
        _better(
            "TT-POIS is better than POIS on Dam, Reacher and Supply Chain, whatever γ", discounted, _LARGE
        ),
        _of_discounts(runs, discounted),
        _better("dense corridor: a significant benefit", discounted, [_DENSE]),
        _not_worse("sparse corridor: TT-POIS learns as POIS does, although only the end pays", discounted),
        _better("the same is true of undiscounted returns", undiscounted, [*_LARGE, _DENSE]),
        _of_budgets(discounted),
        _better(
            "beyond the paper: weights per decision and baselines are better than TT-POIS, all else equal",
            weighted,
            list(PAPER_PRESETS),
        ),
    ]
    presets = list(PAPER_PRESETS)
    cases = [
        (
            f"{preset}, γ = {gamma:g}",
            *(_told(each.get((preset, gamma))) for each in (discounted, undiscounted, weighted)),
            _steps_to_final(runs[preset, gamma]),
        )
        for preset, gamma in sorted(discounted, key=lambda case: (presets.index(case[0]), -case[1]))
    ]
    return {
        "claims": markdown.table(("claim", "verdict", "measured"), lines),
        "cases": markdown.table(_CASES, cases),
    }


def _rows(results: Path, name: str) -> list[dict[str, Any]]:
    path = results / f"{name}.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


Runs = dict[Case, dict[str, dict[int, list[Mapping[str, Any]]]]]


def _runs(rows: Iterable[Mapping[str, Any]]) -> Runs:
    """Curves by case, method and seed; figures share runs, and each counts once."""
    once = {tuple(row[k] for k in ("preset", "gamma", "algorithm", "seed", "iteration")): row for row in rows}
    runs: Runs = {}
    for (preset, gamma, method, seed, _), row in once.items():
        runs.setdefault((preset, gamma), {name: {} for name in METHODS})[method].setdefault(seed, []).append(
            row
        )
    return runs


def _differences(runs: Runs, column: str, methods: Sequence[str] = ("TTPOIS", "POIS")) -> dict[Case, Any]:
    """Mean and half-width of the difference of final returns, where both methods have two seeds."""
    found = {}
    for case, by_method in runs.items():
        finals = [[final_return(run, column) for run in by_method[method].values()] for method in methods]
        if min(map(len, finals)) > 1:
            found[case] = difference_interval(*finals)
    return found


def _sign(difference: tuple[float, float]) -> int:
    """1 for better, −1 for worse, 0 for level."""
    mean, half = difference
    return 0 if abs(mean) <= half else 1 if mean > 0.0 else -1


def _told(difference: tuple[float, float] | None) -> str:
    return f"{with_interval(*difference)}, {_WORDS[_sign(difference)]}" if difference else ""


def _counted(differences: Mapping[Case, Any]) -> str:
    signs = [_sign(each) for each in differences.values()]
    counted = ", ".join(f"{word} in {signs.count(sign)}" for sign, word in _WORDS.items() if sign in signs)
    return f"{counted} of {len(signs)}" if signs else ""


def _steps_to_final(by_method: Mapping[str, Mapping[int, Rows]]) -> str:
    """What weights per decision need for the return that TT-POIS ends at."""
    if not by_method[PER_DECISION]:
        return ""
    level = float(np.mean([final_return(run) for run in by_method["TTPOIS"].values()]))
    return steps_to(level, list(by_method[PER_DECISION].values()), RETURNS[0])


def _verdict(agrees: Sequence[bool], contradicts: Sequence[bool]) -> str:
    if not agrees:
        return "**not run**"
    if all(agrees):
        return "**holds**"
    return "**holds in part**" if any(agrees) and not any(contradicts) else "**does not hold**"


def _better(claim: str, differences: Mapping[Case, Any], presets: Sequence[str]) -> tuple[str, str, str]:
    chosen = {case: each for case, each in differences.items() if case[0] in presets}
    signs = [_sign(each) for each in chosen.values()]
    return claim, _verdict([sign > 0 for sign in signs], [sign < 0 for sign in signs]), _counted(chosen)


def _not_worse(claim: str, differences: Mapping[Case, Any]) -> tuple[str, str, str]:
    chosen = {case: each for case, each in differences.items() if case[0] == _ONLY_END_PAYS}
    signs = [_sign(each) for each in chosen.values()]
    return claim, _verdict([sign >= 0 for sign in signs], [sign < 0 for sign in signs]), _counted(chosen)


def _of_discounts(runs: Runs, differences: Mapping[Case, Any]) -> tuple[str, str, str]:
    """Advantages at different γ have different units: gains since the first iteration are divided."""
    ratios: dict[str, dict[float, float]] = {}
    ahead = {preset for (preset, _), each in differences.items() if _sign(each) > 0}
    for preset, gamma in sorted(case for case in differences if case[0] in ahead):
        gains = [
            float(np.mean([final_return(run) - run[0][RETURNS[0]] for run in by_seed.values()]))
            for by_seed in (runs[preset, gamma][method] for method in ("TTPOIS", "POIS"))
        ]
        ratios.setdefault(preset, {})[gamma] = gains[0] / gains[1] if gains[1] > 0.0 else np.inf
    several = {preset: by_gamma for preset, by_gamma in ratios.items() if len(by_gamma) > 1}
    agrees = [by_gamma[min(by_gamma)] > by_gamma[max(by_gamma)] for by_gamma in several.values()]
    told = [
        f"{preset}: {', '.join(f'{ratio:.2g} (γ = {gamma:g})' for gamma, ratio in by_gamma.items())}"
        for preset, by_gamma in several.items()
    ]
    return (
        "the smaller γ, the larger the advantage, where there is one",
        _verdict(agrees, [not each for each in agrees]),
        f"TT-POIS's gain ÷ POIS's: {'; '.join(told)}" if told else "",
    )


def _of_budgets(differences: Mapping[Case, Any]) -> tuple[str, str, str]:
    """The smaller budget's preset is called after it: `dam-4320` beside `dam`."""
    pairs = {
        (small, gamma): (differences[small, gamma], differences[large, gamma])
        for small, gamma in differences
        for large in [small.rpartition("-")[0]]
        if (large, gamma) in differences
    }
    signs = [(_sign(small), _sign(large)) for small, large in pairs.values()]
    verdict = _verdict([a == b for a, b in signs], [a * b < 0 for a, b in signs])
    same, opposite = sum(a == b for a, b in signs), sum(a * b < 0 for a, b in signs)
    told = f"the same in {same}, the opposite in {opposite} of {len(signs)}" if signs else ""
    return "budgets change nothing of this", verdict, told


def _of_widths(rows: Rows) -> list[tuple[str, str, str]]:
    texts = (
        "the strategy narrows the interval, the more the smaller γ and the longer T",
        "as γ → 1 it tends to the uniform strategy",
        "it is close to the optimum",
    )
    if not rows:
        return [(text, "**not run**", "") for text in texts]
    horizons, gammas = (sorted({row[key] for row in rows}) for key in ("horizon", "gamma"))
    by_case = {(row["horizon"], row["gamma"]): row["truncated"] for row in rows}
    grid = np.array([[by_case[horizon, gamma] for gamma in gammas] for horizon in horizons])
    # Samples are whole numbers: neighbouring discounts may differ by a tenth of a per cent either way.
    narrower = [bool((grid < 100.0).all()), bool((np.diff(grid, axis=1) > -0.1).all())]
    narrower.append(bool((np.diff(grid[:, 0]) < 0.0).all()))
    ends = 100.0 - grid[:, -1]
    excess = max(row["truncated"] / row["exact"] for row in rows)
    smallest = f"T = {horizons[-1]:,}, γ = {gammas[0]:g}"
    return [
        (
            texts[0],
            _verdict(narrower, [not narrower[0]]),
            f"{grid[-1, 0]:.1f} % of uniform's width at {smallest}",
        ),
        (
            texts[1],
            _verdict([bool((ends < 1.0).all())], [True]),
            f"at γ = {gammas[-1]:g} the width is {ends.min():.1f} to {ends.max():.1f} % smaller",
        ),
        (
            texts[2],
            _verdict([excess < _NEARLY], [True]),
            f"at most {100.0 * (excess - 1.0):.2f} % wider than the exact integer optimum",
        ),
    ]


def _of_evaluation(rows: Rows, kind: str) -> tuple[str, str, str]:
    """Per point Welch's interval of the difference of squared errors, truncated − uniform; less is better."""
    errors: dict[tuple[float, int, int], dict[str, list[float]]] = {}
    for row in rows:
        if row["kind"] == kind:
            point = errors.setdefault((row["gamma"], row["horizon"], row["budget"]), {})
            point.setdefault(row["strategy"], []).append(row["squared_error"])
    signs = [_sign(difference_interval(each["uniform"], each["truncated"])) for each in errors.values()]
    parts = []
    for gamma in sorted({gamma for gamma, _, _ in errors}):
        ratios = [
            np.mean(each["truncated"]) / np.mean(each["uniform"])
            for key, each in errors.items()
            if key[0] == gamma
        ]
        parts.append(f"γ = {gamma:g}: {min(ratios):.2g} to {max(ratios):.2g} of uniform's MSE")
    smaller, level, larger = (signs.count(sign) for sign in (1, 0, -1))
    counted = f"smaller at {smaller} of {len(signs)} points, level at {level}, larger at {larger}"
    verdict = _verdict([sign > 0 for sign in signs], [sign < 0 for sign in signs])
    return f"evaluation, {kind}: a smaller error", verdict, "; ".join([counted, *parts]) if signs else ""
