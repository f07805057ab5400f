"""The offline optimisation: the bound over shards of a batch, and the search that climbs it."""
