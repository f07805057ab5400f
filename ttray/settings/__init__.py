"""Every setting of a training, defined once; flags, files, configurations and docs follow from it."""
