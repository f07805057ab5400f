"""`ttray.report`: one HTML file that shows runs side by side and lets a reader plan; it loads nothing.

What is shown of a run comes from its directory: `run.json`, `metrics.csv`, `steps.csv`. The numbers are put
together here; `page.js` and `explorer.js` only draw them.
"""

from __future__ import annotations

import html
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import MAX_NUMBER, brief, check_count, check_text
from ttray.boundary.files import read_object
from ttray.estimators.intervals import mean_interval
from ttray.plans import dcs, planners
from ttray.runs.curves import RETURNS, read_csv
from ttray.runs.directories import CONFIG, DESCRIPTION, METRICS, STEPS, check_file
from ttray.runs.versions import versions

_SCRIPTS = ("plans.js", "charts.js", "page.js", "explorer.js")
_PHASES = {"collecting": "sample_time_s", "optimising": "optimise_time_s"}
_OF_ITERATIONS = (
    "num_env_steps",
    *RETURNS,
    "bound_before",
    "bound_after",
    *_PHASES.values(),
    "iteration_time_s",
)
_OF_STEPS = ("num_samples", "variance")
_MAX_HORIZON = 10**6  # of a page that a browser can show


def report(*directories: str | Path, path: str | Path = "report.html") -> Path:
    """Writes one self-contained page about runs, with a plan explorer.

    Args:
        *directories: Of runs, finished or under way; runs that differ in their seed only are one line with
            its interval. Without any, the page is the plan explorer alone.
        path: The file to write.

    Returns:
        The file.
    """
    path = Path(path).expanduser()
    check_file(path)
    runs = [_read(Path(directory).expanduser()) for directory in directories]
    _label(runs)
    data = {"runs": runs, "groups": _groups(runs), "plans": _plans(runs), "explorer": _explorer(runs)}
    for run in runs:
        del run["rows"], run["steps"]
    subjects = dict.fromkeys(run["settings"]["environment"] for run in runs)
    page = Template(_part("page.html")).substitute(
        title=html.escape(", ".join(subjects) or "Plans"),
        subtitle=html.escape(_subtitle(runs)),
        made_with=html.escape(", ".join(f"{name} {version}" for name, version in versions().items())),
        style=_part("page.css"),
        script="\n".join(_part(name) for name in _SCRIPTS),
        # What looks like a tag or a comment ends a script, or keeps it from ending, even inside a string.
        data=json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _subtitle(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return "To see what runs have learned: ttray report RUN ..."
    return f"{len(runs)} run{'s' * (len(runs) != 1)}"


def _read(directory: Path) -> dict[str, Any]:
    for name in (DESCRIPTION, METRICS):
        if not os.path.lexists(directory / name):
            raise ValueError(
                f"{directory} has no {name}; pass directories of runs that have finished an iteration"
            )
    has_steps = os.path.lexists(directory / STEPS)
    settings = _settings(directory / DESCRIPTION, is_planned=not has_steps)
    rows = _rows(directory / METRICS, _OF_ITERATIONS)
    steps = _rows(directory / STEPS, _OF_STEPS) if has_steps else []
    if steps and (len(steps) != settings["horizon"] or _column(steps, "num_samples").min() < 1.0):
        raise ValueError(f"{directory / STEPS} does not have samples of each of {settings['horizon']} steps")
    returns = _column(rows, "discounted_return")
    return {
        "name": directory.name,
        "settings": settings,
        "rows": rows,
        "steps": steps,
        # The last iteration's gain shows in a batch that was never collected.
        "predicted": (_column(rows, "bound_after") - _column(rows, "bound_before"))[:-1].tolist(),
        "measured": np.diff(returns).tolist(),
        "phases": _phases(rows),
        "config": directory / CONFIG,
    }


def _settings(path: Path, *, is_planned: bool) -> dict[str, Any]:
    """What the file says, once all that is used here is what it may be, and the first plan if it is."""
    found = read_object(path)
    try:
        for name in ("environment", "horizon", "budget", "gamma", "strategy"):
            if name not in found:
                raise ValueError(f"it has no {name}")
        check_text("environment", found["environment"])
        check_text("strategy", found["strategy"])
        check_count("horizon", found["horizon"], maximum=_MAX_HORIZON)
        dcs.check_plan(found["horizon"], found["budget"], found["gamma"])
        if is_planned:
            _first_plan(found)
    except ValueError as problem:
        raise ValueError(f"{path} does not describe a run: {problem}") from None
    return found


def _rows(path: Path, names: Sequence[str]) -> list[dict[str, float]]:
    """The rows of a file, whose columns of these names are numbers; a variance may be unknown."""
    rows = read_csv(path, names)
    if not rows:
        raise ValueError(f"{path} has no row; pass directories of runs that have finished an iteration")
    for name in names:
        values = _column(rows, name)
        wrong = ~(np.abs(values) <= MAX_NUMBER) & ~(np.isnan(values) & (name == "variance"))
        if wrong.any():
            raise ValueError(
                f"{path} has {brief(float(values[wrong.argmax()]))} for {name} in row {wrong.argmax() + 1}; "
                f"it must be a finite number of at most {MAX_NUMBER:g}"
            )
    return rows


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _phases(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of what an iteration is made of, over all iterations."""
    seconds = {name: float(_column(rows, key).sum()) for name, key in _PHASES.items()}
    rest = float(_column(rows, "iteration_time_s").sum()) - sum(seconds.values())
    return seconds | {"the rest": max(rest, 0.0)}


def _label(runs: Sequence[dict[str, Any]]) -> None:
    """Names runs by what tells them apart, and gives each a command that repeats it, where no other does."""
    names = [run["name"] for run in runs]
    for number, run in enumerate(runs, 1):
        is_alone = names.count(run["name"]) == 1
        run["label"] = run["name"] if is_alone else f"{run['name']} ({number})"
        again = Path("again") / (run["name"] if is_alone else f"{run['name']}-{number}")
        config = shlex.quote(str(run.pop("config")))
        run["repeat"] = f"ttray train --config {config} --directory {shlex.quote(str(again))}"


_OF_A_SEED = (
    "seed",
    "num_iterations",
    "num_env_runners",
    "label_selector",
    "checkpoint_every",
    "optimise_on",
)


def _groups(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in nothing but their seed, as one curve with its interval."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        same = {key: value for key, value in run["settings"].items() if key not in _OF_A_SEED}
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(run)
    return [_group(members) for members in groups.values()]


def _group(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    longest = max(members, key=lambda run: len(run["rows"]))
    shortest = min(len(run["rows"]) for run in members)
    alone = len(members) == 1
    label = members[0]["label"] if alone else f"{members[0]['label']} and others, {len(members)} seeds"
    if len(longest["rows"]) > shortest:
        label += (
            f"; their mean ends at iteration {shortest}, where the shortest ends (the longest: "
            f"{len(longest['rows'])})"
        )
    group: dict[str, Any] = {
        "label": label,
        "num_env_steps": _column(longest["rows"], "num_env_steps").tolist(),
    }
    for name in RETURNS:
        seeds = [_column(run["rows"], name) for run in members]
        mean, half = mean_interval([seed[:shortest] for seed in seeds])
        group[name] = {
            "seeds": [seed.tolist() for seed in seeds],
            "mean": mean.tolist(),
            "low": None if alone else (mean - half).tolist(),
            "high": None if alone else (mean + half).tolist(),
        }
    return group


def _plans(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last plan of each run, those that are the same once; where its variance is, as far as is known."""
    plans: dict[str, dict[str, Any]] = {}
    for run in runs:
        settings = run["settings"]
        if run["steps"]:
            samples = _column(run["steps"], "num_samples")
            variance = _column(run["steps"], "variance") / samples
        else:
            samples, variance = _first_plan(settings).samples_per_step.astype(np.float64), None
        worst = dcs.step_costs(settings["horizon"], settings["gamma"]) / samples
        key = json.dumps([samples.tolist(), settings["gamma"]])
        plans.setdefault(
            key,
            {
                "label": run["label"],
                "samples": samples.tolist(),
                "worst_case_share": _share_up_to(worst),
                "measured_share": None if variance is None else _share_up_to(np.nan_to_num(variance)),
            },
        )
    return list(plans.values())


def _first_plan(settings: Mapping[str, Any]) -> dcs.DataCollectionStrategy:
    return planners.plan(
        settings["strategy"], horizon=settings["horizon"], budget=settings["budget"], gamma=settings["gamma"]
    )


def _share_up_to(variance: NDArray[np.float64]) -> list[float] | None:
    """Of the total, up to each step; None where nothing is known. Steps never seen twice count as 0."""
    total = variance.sum()
    return (np.cumsum(variance) / total).tolist() if total > 0.0 else None


def _explorer(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The explorer starts at the plan of the first run."""
    return {key: runs[0]["settings"][key] for key in ("horizon", "budget", "gamma")} if runs else {}
