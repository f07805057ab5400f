"""Batches as Arrow tables: columns, metadata, validation, ragged tensors."""
