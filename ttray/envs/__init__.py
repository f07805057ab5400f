"""The six environments of the paper, natively batched; importing this package registers them.

Appendix "Environment Details" of the paper. `gymnasium.make("ttray/Dam-v0")` gives one environment,
`gymnasium.make_vec("ttray/Dam-v0", num_envs=64)` a batch. None has a time limit: the plan of the
rollouts decides how long a trajectory is.
"""

import gymnasium

# Entry points are text, so that MuJoCo is loaded only by who makes a Reacher.
_MODULES = {
    "Evaluation": "evaluation",
    "CorridorSparse": "corridor",
    "CorridorDense": "corridor",
    "Dam": "dam",
    "SupplyChain": "supply_chain",
    "Reacher": "reacher",
}

ENVIRONMENT_IDS = tuple(f"ttray/{name}-v0" for name in _MODULES)

for _name, _module in _MODULES.items():
    gymnasium.register(
        id=f"ttray/{_name}-v0",
        entry_point=f"ttray.envs.{_module}:{_name}Env",
        vector_entry_point=f"ttray.envs.{_module}:{_name}VectorEnv",
    )
