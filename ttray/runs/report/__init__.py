"""The report: runs, and a plan explorer, as one page for a browser."""
