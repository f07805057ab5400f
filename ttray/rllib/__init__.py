"""TT-POIS and POIS in RLlib's vocabulary: configuration, algorithm, learner, RLModule."""
