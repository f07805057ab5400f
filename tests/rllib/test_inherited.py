"""RLlib's settings: each has its effect, is refused with the way out, or is named in one warning."""

import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from tests.support.modules import OwnModule
from tests.support.small import small_config
from ttray.rllib import unsupported_settings
from ttray.rllib.unsupported_settings import HONOURED, REFUSED, ignored_settings, refuse, warn_of_ignored

FIELDS = {name.strip("_"): name for name in sorted(vars(AlgorithmConfig()))}


class Other:
    """A value that no setting has by itself."""


def test_a_fresh_configuration_ignores_and_refuses_nothing(caplog):
    config = small_config()
    config.validate()
    warn_of_ignored(config)
    assert ignored_settings(config) == []
    assert not [record for record in caplog.records if record.name == unsupported_settings.__name__]


def test_the_tables_name_settings_that_there_are():
    assert HONOURED | set(REFUSED) <= set(FIELDS)
    assert not HONOURED & set(REFUSED)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in HONOURED])
def test_a_changed_setting_is_refused_or_named(name):
    config = small_config()
    setattr(config, FIELDS[name], {"a": None, "b": None} if name == "policies" else Other())
    if name in REFUSED:
        with pytest.raises(ValueError, match=name):
            refuse(config)
    else:
        refuse(config)
        assert [text.partition("=")[0] for text in ignored_settings(config)] == [name]


class Watcher(RLlibCallback):
    """Has methods that are called, and one that is not."""

    def on_train_result(self, **kwargs):
        """Called."""

    def on_episode_step(self, **kwargs):
        """Never called: rollouts have no episodes of RLlib."""


def test_everything_without_effect_is_in_one_warning(caplog):
    config = small_config(lr=1e-4, grad_clip=40.0, train_batch_size=4000).callbacks(Watcher)
    warn_of_ignored(config)
    (message,) = caplog.messages
    for text in ("lr=0.0001", "grad_clip=40.0", "train_batch_size=4000", "Watcher.on_episode_step"):
        assert text in message
    assert "on_train_result" not in message
    assert "gamma" not in message


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: small_config().rl_module(model_config={"fcnet_hiddens": [4]}), "leave one of them out"),
        (lambda: plain().rl_module(model_config={"fcnet_hidden": [4]}), "model_config has fcnet_hidden,"),
        (lambda: plain().rl_module(model_config={"use_lstm": True}), "recurrent"),
        (lambda: plain().rl_module(model_config=DefaultModelConfig(use_lstm=True)), "recurrent"),
        (lambda: plain().evaluation(evaluation_config={"explore": False, "env": "a"}), "all but 'explore'"),
        (lambda: plain().env_runners(explore=False), r"evaluation_config=\{\"explore\": False\}"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_way_out(make, words):
    with pytest.raises(ValueError, match=words):
        make().validate()


def test_hidden_sizes_beside_a_module_of_ones_own_are_named():
    config = small_config().rl_module(rl_module_spec=RLModuleSpec(module_class=OwnModule))
    assert [name.partition(" ")[0] for name in ignored_settings(config)] == ["hidden_sizes"]


def plain():
    """Without hidden sizes of its own."""
    return small_config(hidden_sizes=(64, 32))


@pytest.mark.parametrize(
    "name", ["num_gpus_per_env_runner", "num_gpus_per_learner", "num_gpus", "local_gpu_idx", "_fake_gpus"]
)
def test_a_gpu_that_nothing_would_use_is_refused(name):
    config = small_config()
    setattr(config, name, 1)
    with pytest.raises(ValueError, match=f"{name.strip('_')} .*computes on CPUs"):
        config.validate()


@pytest.mark.parametrize("name", ["custom_resources_per_env_runner", "custom_resources_per_learner"])
@pytest.mark.parametrize(
    ("found", "message"),
    [({"GPU": 1}, "computes on CPUs alone"), ({"disk": -1}, "amounts of resources"), ("disk", "by name")],
)
def test_a_gpu_is_no_resource_of_ones_own(name, found, message):
    config = small_config()
    setattr(config, name, found)
    with pytest.raises(ValueError, match=f"{name} .*{message}"):
        config.validate()
