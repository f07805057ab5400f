"""The mathematics: strategies, quotas, batches, estimators, offline search. No Ray, no gymnasium."""
