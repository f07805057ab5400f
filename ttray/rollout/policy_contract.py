"""Checks what a policy answers: a row of distribution inputs, or an action, per observation.

Policies are functions and modules of users. What goes wrong in them is told as theirs, in one line with the
place in their code, and is not tried again: the same observation gives the same mistake.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from ttray.boundary.fields import brief
from ttray.rollout.blame import is_stop

# Where a mistake is noticed, but not made: the place to tell is the user's line that led there.
_LIBRARIES = str(Path(str(torch.__file__)).parents[1])
_TTRAY = str(Path(__file__).parents[1])


class PolicyError(ValueError):
    """A policy raised, or answered what is no distribution of actions, or no actions."""


def answer_of(
    policy: Callable[[Any], Any], obs: Any, shape: tuple[int, int], *, name: str | None = None
) -> NDArray[np.float32]:
    """Asks a policy; PolicyError says what is wrong with it.

    Args:
        policy: A function of the user, or a form of their module.
        obs: `[rows, obs_size]`.
        shape: Of the answer, `(rows, num_inputs)`.
        name: Of the policy in messages.
    """
    # At every step of every rollout: what an error would say is put together only if there is one.
    try:
        answer = policy(obs)
    except BaseException as problem:
        blame(
            problem,
            name or name_of(policy),
            f"observations of shape {tuple(obs.shape)}; it must take these and answer an array of floats of "
            f"shape {shape}",
        )
    if type(answer) is np.ndarray and answer.dtype.kind == "f" and answer.shape == shape:
        if answer.dtype == np.float32:
            return answer
        with np.errstate(over="ignore"):  # infinity is told later, with its place
            return answer.astype(np.float32)
    raise PolicyError(
        f"the policy {name or name_of(policy)} answered {_kind(answer)}; it must answer a NumPy array of "
        f"floats of shape {shape}: a row of distribution inputs for each observation{_cure(answer, shape)}"
    )


def asked(name: str, ask: Callable[[], Any], about: str) -> Any:
    """What a policy answers; PolicyError if it raises.

    Args:
        name: Of the policy.
        ask: Runs its code.
        about: For what it is asked, for the message.
    """
    try:
        return ask()
    except BaseException as problem:
        blame(problem, name, about)


def blame(problem: BaseException, name: str, about: str) -> NoReturn:
    """Raises what a policy raised as the policy's fault, unless somebody stops the program.

    Args:
        problem: What it raised.
        name: Of the policy.
        about: For what it was asked.
    """
    if is_stop(problem) or isinstance(problem, PolicyError):
        raise problem
    raise PolicyError(f"the policy {name} raised {_in_one_line(problem)} for {about}") from None


def actions_in(answer: Any, number: int, space: gymnasium.Space, name: str) -> NDArray[Any]:
    """The actions that a policy answered as they are recorded: flat rows, choices from 0.

    Args:
        answer: Of the policy.
        number: Of observations that it was asked about.
        space: Of the actions.
        name: Of the policy.

    Raises:
        PolicyError: They are no actions of this space.
    """
    shape, is_box = (number, *space.shape), isinstance(space, Box)
    actions = answer if type(answer) is np.ndarray else _array_of(answer)
    if actions is None or actions.shape != shape or actions.dtype.kind not in ("fiu" if is_box else "iub"):
        raise PolicyError(
            f"the policy {name} answered {_kind(answer)}; it must answer an array of "
            f"{'floats' if is_box else 'whole numbers'} of shape {shape}: an action of {space} for each "
            "observation"
        )
    if is_box:
        return actions.reshape(number, -1).astype(np.float32, copy=False)
    if isinstance(space, gymnasium.spaces.MultiBinary):
        start, sizes = np.array(0), np.array(2, np.uint64)
    else:
        start = np.asarray(space.start, np.int64)
        sizes = np.asarray(space.n if isinstance(space, Discrete) else space.nvec, np.uint64)
    chosen = actions.astype(np.int64) - start
    wrong = chosen.view(np.uint64) >= sizes  # as are numbers below 0, taken for these
    if len(wrong.nonzero()[0]):  # of so few, quicker than `any`
        found = actions[wrong.reshape(number, -1).any(1).argmax()]
        raise PolicyError(f"the policy {name} answered the action {found}, which is not in {space}")
    return chosen if chosen.ndim == 1 else chosen.reshape(number, -1)


def _array_of(answer: Any) -> NDArray[Any] | None:
    try:
        return np.asarray(answer)
    except Exception:  # of rows of different lengths, of a tensor that is elsewhere
        return None


def not_finite(name: str, value: NDArray[Any], place: str) -> PolicyError:
    """The error of a policy that answered NaN or infinity.

    Args:
        name: Of the policy.
        value: One of its answers.
        place: To which observation.
    """
    return PolicyError(f"the policy {name} answered numbers that are not finite: {value} ({place})")


def name_of(policy: Any) -> str:
    """What messages call a policy: its function's, its module's or its own class's name."""
    while _is_ours(policy) and hasattr(policy, "policy"):  # behind a filter, a scale, its mode
        policy = policy.policy
    found = getattr(policy, "name" if _is_ours(policy) else "__qualname__", None)
    return found if isinstance(found, str) else type(policy).__name__


def _is_ours(policy: Any) -> bool:
    """Whether its attributes mean what they say: an object of a user may have any, even all."""
    return type(policy).__module__.startswith("ttray.")


def _kind(answer: Any) -> str:
    if isinstance(answer, torch.Tensor):
        return f"a torch tensor of {answer.dtype} of shape {tuple(answer.shape)}"
    if isinstance(answer, np.ndarray):
        kind = "an array" if type(answer) is np.ndarray else f"a {type(answer).__name__}"
        return f"{kind} of {answer.dtype} of shape {answer.shape}"
    return "None" if answer is None else f"a {type(answer).__name__}: {' '.join(brief(answer).split())}"


def _cure(answer: Any, shape: tuple[int, int]) -> str:
    if isinstance(answer, torch.Tensor):
        return ". Return outputs.detach().numpy()"
    if answer is None:
        return ". Does it return something?"
    if isinstance(answer, np.ndarray) and answer.shape == shape:
        return ". Return np.asarray(outputs, np.float32)"
    if isinstance(answer, np.ndarray):
        return (
            ": the logits of choices, or means and then logarithms of standard deviations. A policy may also "
            "answer actions, in the shape and type of the environment's; ttray.policies.function(act) says "
            "what is wrong with those"
        )
    return ""


def _in_one_line(problem: BaseException) -> str:
    text = " ".join(str(problem).split())[:300]
    calls = traceback.extract_tb(problem.__traceback__)
    frames = [each for each in calls if not each.filename.startswith(_TTRAY)]
    own = [each for each in frames if not each.filename.startswith(_LIBRARIES)] or frames
    place = f" ({own[-1].filename}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"{type(problem).__name__}: {text}{place}"
