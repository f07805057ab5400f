"""Collects rounds until an interval is narrow enough; resumable, and stoppable at any moment."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from ttray.data.batch import digest
from ttray.data.ragged import as_tensors
from ttray.estimators.in_rounds import EvaluationInRounds, Question
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rollout.policy_contract import name_of
from ttray.rollout.policy_files import is_plain
from ttray.runs.anytime import AnytimeEvaluation
from ttray.runs.collect import Collector
from ttray.runs.round_files import RoundFiles, digest_of, round_files
from ttray.runs.rounds_line import OnRound
from ttray.runs.subject import Subject


class EvaluationStopped(KeyboardInterrupt):
    """An evaluation was interrupted; what its whole rounds tell is not lost.

    Args:
        so_far: What they tell, as the call would have told it; None before the first.
        directory: Where the rounds are, to go on from; None if nowhere.
    """

    def __init__(self, so_far: Any, directory: Path | None) -> None:
        super().__init__("the evaluation was stopped")
        self.so_far, self.directory = so_far, directory


def evaluate_to_accuracy(
    question: Question,
    collector: Collector,
    *,
    kept: AbstractContextManager[RoundFiles] | None = None,
    directory: Path | None = None,
    on_round: OnRound,
    max_steps: int | None = None,
) -> AnytimeEvaluation:
    """Collects rounds until the accuracy is reached or the budget spent.

    Args:
        question: What is asked.
        collector: Of the policy's trajectories.
        kept: The files of its rounds, if they are to be kept.
        directory: Where these are, for whoever is interrupted.
        on_round: Told the interval after every round; ends the evaluation by answering True.
        max_steps: Stop after a round that brings the steps to this; nothing is planned for it.

    Raises:
        EvaluationStopped: It was interrupted.
        ValueError: A reward is outside its range, or the rounds on disk are those of something else.
    """
    evaluation = EvaluationInRounds(question)
    try:
        with kept or nullcontext() as files:
            while (plan := evaluation.next_plan()) is not None:
                table = obtain(plan, evaluation.num_rounds, question, collector, files)
                interval = evaluation.add(plan, as_tensors(table))
                is_enough = on_round(interval)
                if is_enough or (max_steps is not None and interval.num_env_steps >= max_steps):
                    break
    except KeyboardInterrupt:
        raise EvaluationStopped(
            AnytimeEvaluation.of(evaluation) if evaluation.num_rounds else None, directory
        ) from None
    return AnytimeEvaluation.of(evaluation)


def obtain(
    plan: DataCollectionStrategy,
    number: int,
    question: Question,
    collector: Collector,
    files: RoundFiles | None,
    part: int | None = None,
) -> pa.Table:
    """A round: from disk if it is there, else collected, and kept.

    Args:
        plan: Of the round.
        number: Of the round, from 0.
        question: What is asked.
        collector: Of the policy's trajectories.
        files: Of the rounds, if they are kept.
        part: Of the round, if it has several.
    """
    iteration = question.first_iteration + number
    found = None if files is None else files.read(number, plan, question.seed, iteration, part)
    if found is not None and number > 0:
        return found
    table = collector.collect(plan, iteration=iteration, gamma=question.gamma)
    if found is not None and digest(found) != digest(table):
        # The first round is the smallest. Another policy, or another environment, shows in its bits.
        raise ValueError(
            "the first round has other bits than it had when this evaluation began: the policy, its "
            "environment or the packages that they compute with have changed; choose another directory"
        )
    if files is not None and found is None:
        files.write(number, table, part)
    return table


def kept_rounds(
    directory: Path, question: Question, subject: Subject, **others: Any
) -> AbstractContextManager[RoundFiles]:
    """The files of an evaluation, which say what it is of.

    Args:
        directory: Of the files.
        question: What is asked.
        subject: Whose rounds they are.
        **others: Settings on which the rounds depend.
    """
    return round_files(
        directory,
        {
            "policy": identity(subject),
            **settings_of(question, subject),
            "accuracy": None if question.accuracy is None else str(question.accuracy),
            **others,
        },
    )


def settings_of(question: Question, subject: Subject) -> dict[str, Any]:
    """What all rounds depend on, but for the policy and for what is asked of it."""
    known, config = question.reward_range, subject.maker.config
    return {
        "environment": question.environment,
        "env_config": config if is_plain(config) else None,
        "horizon": question.horizon,
        "gamma": question.gamma,
        "delta": question.delta,
        "reward_range": None if known is None else known.pair,
        "max_budget": question.max_budget,
        "seed": question.seed,
    }


def identity(subject: Subject) -> str:
    """What tells a policy from another one: the bytes of its files, or the name of what is in memory."""
    return name_of(subject.policy) if subject.file is None else f"sha256 {digest_of(subject.file)}"
