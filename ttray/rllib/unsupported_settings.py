"""Settings of RLlib that have no effect here: each is refused, or named in one warning.

RLlib's configuration has some three hundred fields, most of them for other algorithms. Whoever changes one
that means nothing here is told so when the algorithm is built, and not left to find out from results.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

from ttray.boundary.fields import brief
from ttray.settings.model import settings_of
from ttray.settings.training import EvaluationSettings

logger = logging.getLogger(__name__)

_CALLBACKS = (
    "on_algorithm_init",
    "on_checkpoint_loaded",
    "on_environment_created",
    "on_evaluate_end",
    "on_evaluate_start",
    "on_train_result",
)

HONOURED = frozenset(
    {
        # The environment, the model and what is optimised.
        "clip_actions",  # actions that leave a Box are always clipped
        "disable_env_checking",  # nothing is checked by RLlib, as if it were set
        "env",
        "env_config",
        "gamma",
        "observation_filter",
        "seed",
        "model_config",
        "rl_module_spec",
        # Who collects and who learns.
        "custom_resources_per_env_runner",
        "custom_resources_per_learner",
        "extra_python_environs_for_driver",
        "extra_python_environs_for_worker",
        "framework_str",  # RLlib itself refuses everything but torch
        "learner_class",
        "learner_config_dict",
        "max_num_env_runner_restarts",
        "num_cpus_for_main_process",
        "num_cpus_per_env_runner",
        "num_cpus_per_learner",
        "num_env_runners",
        "num_envs_per_env_runner",
        "num_learners",
        "placement_strategy",
        "restart_failed_env_runners",
        # Evaluation, reports, checkpoints, logs.
        "callbacks_class",
        *(f"callbacks_{name}" for name in _CALLBACKS),
        "evaluation_config",
        "evaluation_duration",
        "evaluation_interval",
        "log_level",
        "log_sys_usage",
        "min_sample_timesteps_per_iteration",
        "min_time_s_per_iteration",
        "stats_cls_lookup",
        "use_msgpack_checkpoints",
        # What RLlib writes into its own configuration.
        "algo_class",
        "in_evaluation",
        "simple_optimizer",
        "is_atari",
        "is_frozen",
        "is_online",
        "per_module_overrides",
        "prior_exploration_config",
        "validate_config",
    }
)

_CONNECTORS = (
    "is not supported: rollouts do not run connectors. Wrap the environment (gymnasium.Wrapper) to change "
    "observations, actions or rewards"
)
_MULTI_AGENT = "cannot be set: multi-agent environments are not supported; train one policy per algorithm"
_ENV_RUNNERS = "cannot be set: RLlib's env runners are not used, ttray's own workers collect"
_GPUS = "must be 0: ttray computes on CPUs, so a GPU would be reserved and never used"
_OFFLINE = "is not supported: training needs fresh batches. For recorded ones there is ttray.ope"

REFUSED = {
    "fake_gpus": _GPUS,
    "env_to_module_connector": _CONNECTORS,
    "module_to_env_connector": _CONNECTORS,
    "learner_connector": _CONNECTORS,
    "create_local_env_runner": _ENV_RUNNERS,
    "custom_evaluation_function": (
        "is not supported: evaluate() collects an exact number of full-length trajectories, or rounds to an "
        "accuracy. For all else "
        "call ttray.collect with algorithm.get_module()"
    ),
    "env_runner_cls": _ENV_RUNNERS,
    "enable_env_runner_and_connector_v2": "must be True: there is no form for RLlib's former API",
    "enable_rl_module_and_learner": "must be True: there is no form for RLlib's former API",
    "evaluation_duration_unit": "must be 'episodes': an exact number of them is evaluated",
    "evaluation_num_env_runners": "must be 0: evaluation uses the training runners",
    "evaluation_parallel_to_training": "is not supported: evaluation uses the training runners",
    "explore": (
        "must be True: importance weights need the density of a policy that explores. To evaluate its mode, "
        'set evaluation(evaluation_config={"explore": False})'
    ),
    "exploration_config": "is not supported: actions are samples of the policy, whose density is needed",
    "input": _OFFLINE,
    "local_gpu_idx": _GPUS,
    "min_train_timesteps_per_iteration": "must be 0: an iteration is one batch of `budget` steps",
    "normalize_actions": "must be False: the density is that of the raw action",
    "num_gpus": _GPUS,
    "num_gpus_per_env_runner": _GPUS,
    "num_gpus_per_learner": _GPUS,
    "num_gpus_per_offline_eval_runner": _GPUS,
    "observation_fn": _MULTI_AGENT,
    "policies": _MULTI_AGENT,
    "policies_to_train": _MULTI_AGENT,
    "policy_mapping_fn": _MULTI_AGENT,
}

_EVALUATION_SETTINGS = tuple(settings_of(EvaluationSettings))
_OF_ROUNDS = ("delta", "reward_range")


def changed_settings(config: AlgorithmConfig) -> dict[str, Any]:
    """RLlib's settings that are not as a fresh configuration of this kind has them, as users name them.

    RLlib keeps some of them under a name with an underscore.
    """
    fresh, names = vars(type(config)()), vars(AlgorithmConfig())
    found = {
        name.strip("_"): value
        for name, value in vars(config).items()
        if name in names and not _is_same(value, fresh[name])
    }
    if not config.is_multi_agent:
        found.pop("policies", None)  # the one policy in one of its forms
    return found


def _is_same(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except (AttributeError, TypeError, ValueError):
        return False  # of kinds that cannot be compared


def refuse(config: AlgorithmConfig) -> None:
    """Raises ValueError for settings that ask for what cannot be had, with the way out."""
    if config.num_learners > 1:
        raise ValueError(
            f"the bound is of the whole batch: num_learners must be 0 or 1, found {config.num_learners}"
        )
    for name, value in changed_settings(config).items():
        if name in REFUSED and not (name == "explore" and config.in_evaluation):
            raise ValueError(f"{name} {REFUSED[name]}; found {brief(value)}")
    wanted = {} if config.evaluation_config is None else config.evaluation_config
    if isinstance(wanted, AlgorithmConfig) or not isinstance(wanted, Mapping):
        found = "a whole configuration" if isinstance(wanted, AlgorithmConfig) else brief(wanted)
        raise ValueError(f"evaluation_config must be a dictionary, found {found}")
    if others := sorted(map(str, set(wanted) - set(_EVALUATION_SETTINGS))):
        allowed = ", ".join(map(repr, _EVALUATION_SETTINGS))
        raise ValueError(
            f"evaluation_config has {', '.join(others)}; evaluation is as training in all but {allowed}"
        )
    _check_rounds(EvaluationSettings(**wanted), wanted, config)


def _check_rounds(evaluation: EvaluationSettings, wanted: Mapping[str, Any], config: AlgorithmConfig) -> None:
    """Raises ValueError for settings of both ways to evaluate."""
    if evaluation.is_in_rounds:
        if config.evaluation_duration != type(config)().evaluation_duration:
            raise ValueError(
                f"evaluation_duration={config.evaluation_duration} is a number of trajectories, and "
                "evaluation_config asks for rounds, as many as it takes; leave one of them out"
            )
    elif found := [name for name in _OF_ROUNDS if name in wanted]:
        raise ValueError(
            f"evaluation_config has {' and '.join(found)}, of an interval from rounds; add accuracy or "
            "max_budget, or leave it out"
        )


def ignored_settings(config: AlgorithmConfig) -> list[str]:
    """Changed settings without an effect, as their user wrote them."""
    changed = changed_settings(config)
    names = [
        f"{name}={brief(value)}"
        for name, value in changed.items()
        if name not in HONOURED and name not in REFUSED
    ]
    classes = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    for each in classes:
        if inspect.isclass(each):
            names += [f"{each.__name__}.{method}" for method in _never_called(each)]
    if "rl_module_spec" in changed and not _is_same(config.hidden_sizes, type(config)().hidden_sizes):
        names.append("hidden_sizes (of the default network, beside an rl_module_spec)")
    model = changed.get("model_config")
    if isinstance(model, dict) and not model.get("vf_share_layers", True):
        names.append("model_config['vf_share_layers'] (there is no value branch)")
    return names


def _never_called(callbacks: type) -> list[str]:
    """Methods of a user's callbacks that nobody calls here: those of single steps and episodes."""
    return [
        name
        for name, method in inspect.getmembers(RLlibCallback, inspect.isfunction)
        if name.startswith("on_") and name not in _CALLBACKS and getattr(callbacks, name) is not method
    ]


def warn_of_ignored(config: AlgorithmConfig) -> None:
    """Names all settings without an effect in one warning."""
    if names := ignored_settings(config):
        logger.warning(
            "these settings of RLlib have no effect on %s: %s. Batches have `budget` steps, and the bound is "
            "climbed by a line search without a learning rate: see TTPOISConfig.training()",
            config.algo_class.__name__ if config.algo_class else type(config).__name__,
            ", ".join(names),
        )
