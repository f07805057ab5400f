"""The paper's experiments: its figures as trials that are finished only once."""
