"""TT-POIS and POIS in RLlib's vocabulary: configuration, algorithm, learner, RLModule."""

import gc

# RLlib loads three thousand modules, and none of them becomes garbage: not to look for it there, neither now
# nor later, saves every process a fifth of the time that it needs to start.
_looked_for_garbage = gc.isenabled()
gc.disable()
try:
    import ray.rllib  # noqa: F401

    from ttray.rllib.quick_start import start_quickly

    gc.freeze()
finally:
    if _looked_for_garbage:
        gc.enable()

start_quickly()
