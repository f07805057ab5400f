"""The figures of the paper: what each one runs, and how it is drawn."""
