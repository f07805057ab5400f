"""The paper's experiments: presets, comparisons, figures and benchmarks."""
