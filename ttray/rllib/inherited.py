"""What becomes of RLlib's settings here: each has its effect, is refused, or is named in one warning.

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

from ttray.core.checks import shown
from ttray.rllib.env_runner import QuotaEnvRunner

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
        "_model_config",
        "_rl_module_spec",
        # Who collects and who learns.
        "custom_resources_per_env_runner",
        "custom_resources_per_learner",
        "env_runner_cls",
        "env_runner_health_probe_timeout_s",
        "env_runner_restore_timeout_s",
        "extra_python_environs_for_driver",
        "extra_python_environs_for_worker",
        "framework_str",  # RLlib itself refuses everything but torch
        "_learner_class",
        "learner_config_dict",
        "local_gpu_idx",
        "max_num_env_runner_restarts",
        "num_cpus_for_main_process",
        "num_cpus_per_env_runner",
        "num_cpus_per_learner",
        "num_env_runners",
        "num_envs_per_env_runner",
        "num_gpus_per_env_runner",
        "num_gpus_per_learner",
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
        "_use_msgpack_checkpoints",
        # What RLlib writes into its own configuration.
        "algo_class",
        "in_evaluation",
        "simple_optimizer",
        "_is_atari",
        "_is_frozen",
        "_is_online",
        "_per_module_overrides",
        "_prior_exploration_config",
        "_validate_config",
    }
)

_CONNECTORS = (
    "is not supported: rollouts do not run connectors. Wrap the environment (gymnasium.Wrapper) to change "
    "observations, actions or rewards"
)
_MULTI_AGENT = "cannot be set: multi-agent environments are not supported; train one policy per algorithm"
_OFFLINE = "is not supported: training needs fresh batches. For recorded ones there is ttray.ope"

REFUSED = {
    "_env_to_module_connector": _CONNECTORS,
    "_module_to_env_connector": _CONNECTORS,
    "_learner_connector": _CONNECTORS,
    "create_local_env_runner": "must be True: the driver keeps the policy there",
    "custom_evaluation_function": (
        "is not supported: evaluate() collects an exact number of full-length trajectories. For all else "
        "call ttray.collect with algorithm.get_module()"
    ),
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
    "input_": _OFFLINE,
    "min_train_timesteps_per_iteration": "must be 0: an iteration is one batch of `budget` steps",
    "normalize_actions": "must be False: the density is that of the raw action",
    "observation_fn": _MULTI_AGENT,
    "policies": _MULTI_AGENT,
    "policies_to_train": _MULTI_AGENT,
    "policy_mapping_fn": _MULTI_AGENT,
}

_EVALUATION_SETTINGS = {"explore"}


def changed_settings(config: AlgorithmConfig) -> dict[str, Any]:
    """RLlib's settings that are not as a fresh configuration of this kind has them."""
    fresh, names = vars(type(config)()), vars(AlgorithmConfig())
    found = {
        name: value
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
    if not (inspect.isclass(config.env_runner_cls) and issubclass(config.env_runner_cls, QuotaEnvRunner)):
        found = getattr(config.env_runner_cls, "__name__", shown(config.env_runner_cls))
        raise ValueError(f"env_runner_cls must be a subclass of QuotaEnvRunner, found {found}")
    for name, value in changed_settings(config).items():
        if name in REFUSED and not (name == "explore" and config.in_evaluation):
            raise ValueError(f"{name.strip('_')} {REFUSED[name]}; found {shown(value)}")
    wanted = {} if config.evaluation_config is None else config.evaluation_config
    if isinstance(wanted, AlgorithmConfig) or not isinstance(wanted, Mapping):
        found = "a whole configuration" if isinstance(wanted, AlgorithmConfig) else shown(wanted)
        raise ValueError(f"evaluation_config must be a dictionary, found {found}")
    if others := sorted(map(str, set(wanted) - _EVALUATION_SETTINGS)):
        raise ValueError(
            f"evaluation_config has {', '.join(others)}; evaluation is as training in all but 'explore'"
        )


def ignored_settings(config: AlgorithmConfig) -> list[str]:
    """Changed settings without an effect, as their user wrote them."""
    names = [
        f"{name.strip('_')}={shown(value)}"
        for name, value in changed_settings(config).items()
        if name not in HONOURED and name not in REFUSED
    ]
    classes = config.callbacks_class if isinstance(config.callbacks_class, list) else [config.callbacks_class]
    for each in classes:
        if inspect.isclass(each):
            names += [f"{each.__name__}.{method}" for method in _never_called(each)]
    if config._rl_module_spec is not None and not _is_same(config.hidden_sizes, type(config)().hidden_sizes):
        names.append("hidden_sizes (of the default network, beside an rl_module_spec)")
    if isinstance(config._model_config, dict) and not config._model_config.get("vf_share_layers", True):
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
