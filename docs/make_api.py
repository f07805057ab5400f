"""Writes docs/api.md from the docstrings of the public names, and the settings in docs/runs.md: `make docs`.

Docstrings and signatures are read from the source by griffe, settings from the model of them
(`ttray.settings`). The results of `train()` have no docstring to stand in: they are written here, and a test
compares them with what it returns.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe

from ttray.runs.own_settings import ALL_SETTINGS, NUM_ENV_RUNNERS
from ttray.settings.model import Setting
from ttray.settings.training import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
RUNS = ROOT / "docs" / "runs.md"

# Of what extends RLlib's classes, only this much is for users; the rest is what RLlib calls.
METHODS = {
    "TTPOIS": ("train", "evaluate", "save_to_path", "restore_from_path", "from_checkpoint"),
    "POIS": (),
    "TTPOISConfig": ("training", "env_runners"),
    "POISConfig": (),
}

# What the settings of a run are if nothing is said.
OF_RUNS = {name: each.default for name, each in ALL_SETTINGS.items()} | {"num_env_runners": NUM_ENV_RUNNERS}

RESULTS = {
    "env_runners": {
        "discounted_return": "Ĵ, the estimated return of the policy that collected the batch.",
        "episode_return_mean": "The same without a discount; the name that Tune's tables look for.",
        "predicted_gain": "The gain of the bound on the batch before; 0 at first.",
        "measured_gain": "What this return is above that of the batch before; 0 at first.",
        "is_gain_followed": "False if twenty iterations of gains of the bound brought no gain in return; a "
        "log line then says what to change.",
        "num_env_steps_sampled": "Transitions in the batch.",
        "num_env_steps_planned": "The budget; more than were made where episodes ended early.",
        "num_env_steps_sampled_lifetime": "Transitions in all batches of the run.",
        "num_env_steps_saved": "Planned steps that terminated episodes did not need.",
        "num_trajectories": "Trajectories in the batch: exactly those of the plan.",
        "num_trajectories_recollected": "Trajectories of the quotas that were sent out again.",
        "num_quotas_redispatched": "How often a quota was sent out again.",
        "num_quotas_backed_up": "How often a quota was sent a second time because it was late.",
        "num_env_runners": "Workers that delivered quotas of the batch.",
        "slot_utilization": "The part of the executed environment steps that is in the batch.",
        "sample_time_s": "Seconds from start to validated table.",
        "plan_time_s": "Seconds of the driver splitting the plan into quotas.",
        "transfer_time_s": "Seconds of the driver fetching, joining and checking tables.",
        "worker_time_s": "Seconds spent on quotas, added up over those who collect.",
        "busiest_worker_time_s": "Seconds of the one who spent most.",
        "environment_time_s": "Seconds inside environments, added up.",
        "inference_time_s": "Seconds inside the policy, added up.",
    },
    "learners/default_policy": {
        "bound_before": "The bound at the weights that collected the batch.",
        "bound_after": "The bound at the weights that were found.",
        "gain": "Their difference.",
        "step_sizes": "Of the steps that were taken.",
        "step_kls": "Their KL divergences to second order, along natural directions.",
        "num_gradients": "Gradients computed.",
        "num_fisher_products": "Products with the Hessian of the KL divergence, for natural directions.",
        "num_bound_evaluations": "How often line searches looked at the bound.",
        "num_nonfinite_rejected": "Candidates rejected because of NaN or infinity.",
        "stop_reason": "Why the search ended.",
        "max_weight": "The largest importance weight, before clipping, under the policy that was found.",
        "effective_sample_size": "(Σω)²/Σω² of the importance weights, in trajectories; of weights "
        "per decision, over all rows.",
        "renyi2": "The mean of d̂₂(h) over the lengths, weighted as in the bound.",
        "optimise_time_s": "Seconds of the improvement.",
    },
}


def page() -> str:
    """The whole page."""
    package = griffe.load(
        "ttray",
        search_paths=[ROOT],
        docstring_parser="google",
        docstring_options={"returns_multiple_items": False},
    )
    parts = ["# API", "Written by `make docs` from the docstrings: change those, not this page.", "## ttray"]
    for name in sorted(package.exports or (), key=lambda name: str(name).lower()):
        found = package[str(name)]
        if not found.is_module:
            parts += described(found, f"ttray.{name}", 3)
    for name in sorted(package.exports or (), key=str):
        if (module := package[str(name)]).is_module:
            parts += [f"## ttray.{name}", *texts(module)]
            for member in module.exports or ():
                parts += described(module[str(member)], f"ttray.{name}.{member}", 3)
    parts += ["## Environments", "Keywords of `gymnasium.make`, and of every `env_config`."]
    for env_id, environment in sorted(environments(package["envs"])):
        parts += [f"### {env_id}", *texts(environment), *arguments(environment, leave_out={"num_envs"})]
    parts += ["## Results", "What `train()` returns beside RLlib's own keys."]
    for prefix, keys in RESULTS.items():
        parts += [f"### {prefix}", table(("key", "meaning"), ((f"`{k}`", text) for k, text in keys.items()))]
    return "\n\n".join(parts) + "\n"


def environments(package: Any) -> Iterator[tuple[str, Any]]:
    """Every class of the package that has an id of its own."""
    for module in package.modules.values():
        for found in module.classes.values():
            if not found.is_alias and (env_id := found.members.get("env_id")) and env_id.value:
                yield str(env_id.value).strip("'\""), found


def described(found: Any, path: str, level: int) -> list[str]:
    """A name under its heading: how it is called, its text, its arguments; a class also with its methods."""
    parts = [f"{'#' * level} {path}"]
    if found.is_attribute:
        return [*parts, f"`{found.name} = {found.value}`", *texts(found)]
    if found.name not in METHODS:
        parts.append(f"```text\n{call(found)}\n```")
    parts += [*texts(found), *arguments(found)]
    if taken := [each for each in SETTINGS.values() if found.is_function and each.method == found.name]:
        parts.append(settings(taken))
    if found.is_class:
        members = [found.all_members[name] for name in METHODS.get(found.name, found.members)]
        public = [each for each in members if not each.name.startswith("_") and each.docstring]
        properties = [each for each in public if each.is_attribute]
        if properties:
            rows = (
                (f"`{each.name}`", code(each.annotation), flat(each.docstring.value)) for each in properties
            )
            parts.append(table(("property", "type", "meaning"), rows))
        for each in public:
            if each.is_function:
                parts += described(each, f"{path}.{each.name}", level + 1)
    return parts


def call(found: Any) -> str:
    """A signature of names only: types and defaults are in the table."""
    kinds = griffe.ParameterKind
    names: list[str] = []
    is_named = False  # whether arguments are keywords from here on
    for each in found.parameters:
        if each.name in ("self", "cls"):
            continue
        if each.kind is kinds.keyword_only and not is_named:
            names.append("*")
        is_named = is_named or each.kind in (kinds.keyword_only, kinds.var_positional)
        names.append(stars(each) + each.name)
    returns = "" if found.is_class or found.returns is None else f" -> {found.returns}"
    return textwrap.fill(f"{found.name}({', '.join(names)}){returns}", 100, subsequent_indent="    ")


def stars(parameter: Any) -> str:
    """What stands before the name of an argument that takes many."""
    kinds = griffe.ParameterKind
    return {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(parameter.kind, "")


def texts(found: Any) -> list[str]:
    """The docstring without its arguments."""
    parts = []
    for section in found.docstring.parsed if found.docstring else ():
        kind = section.kind.value
        if kind == "text":
            parts.append(section.value)
        elif kind == "admonition":  # an example
            parts.append(f"```python\n{section.value.description}\n```")
        elif kind in ("returns", "raises"):
            told = " ".join(f"`{each.annotation}`: {flat(each.description)}" for each in section.value)
            parts.append(f"{kind.capitalize()} {told}")
        elif kind == "attributes":
            rows = (
                (f"`{each.name}`", code(each.annotation), flat(each.description)) for each in section.value
            )
            parts.append(table(("attribute", "type", "meaning"), rows))
    return parts


def arguments(found: Any, leave_out: Iterable[str] = ()) -> list[str]:
    """The table of a function's or class's arguments, with the meanings that its base classes tell."""
    meanings: dict[str, str] = {}
    owner = found.final_target if found.is_alias else found
    for each in [owner, *(owner.mro() if owner.is_class else ())]:
        for section in each.docstring.parsed if each.docstring else ():
            if section.kind.value == "parameters":
                meanings |= {
                    argument.name.lstrip("*"): flat(argument.description) for argument in section.value
                }
    rows = [
        (
            code(stars(each) + each.name),
            code(each.annotation),
            code(default_of(each, owner)),
            meanings[each.name],
        )
        for each in found.parameters
        if each.name in meanings and each.name not in leave_out
    ]
    return [table(("argument", "type", "default", "meaning"), rows)] if rows else []


def default_of(parameter: Any, owner: Any) -> Any:
    """What holds if an argument is not given."""
    if stars(parameter):
        return None
    value = parameter.default
    if str(value).startswith("Run."):
        return repr(OF_RUNS[parameter.name])
    while isinstance(value, griffe.Expr) and value.canonical_path.startswith("ttray."):
        value = owner.modules_collection[value.canonical_path].value  # a constant of another module
    return value


def settings(listed: Iterable[Setting]) -> str:
    """The table of settings."""
    rows = (
        (
            f"`{each.name}`",
            each.rule.words,
            "required" if each.is_required else code(repr(each.default)),
            each.full_help,
        )
        for each in listed
    )
    return table(("setting", "what it may be", "default", "meaning"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(value: Any) -> str:
    """An expression as code; nothing for nothing."""
    return "" if value is None else f"`{value}`"


def flat(text: str) -> str:
    """A paragraph on one line."""
    return re.sub(r"\s+", " ", text).strip()


def with_settings(text: str) -> str:
    """The page of runs with the table of all settings as they are now."""
    yes = {True: "yes", False: "no"}
    rows = (
        (
            f"`{name}`",
            each.rule.words,
            "" if each.is_required else code(repr(OF_RUNS[name])),
            yes[each.changes_results],
            yes[each.may_change],
            each.help,
        )
        for name, each in ALL_SETTINGS.items()
    )
    head = ("setting", "what it may be", "default", "changes results", "may change later", "meaning")
    before, begin, rest = text.partition("<!-- settings: written by make docs -->\n\n")
    _, end, after = rest.partition("\n\n<!-- end of settings -->")
    return f"{before}{begin}{table(head, rows)}{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
    RUNS.write_text(with_settings(RUNS.read_text()))
