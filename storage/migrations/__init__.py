"""Migrations of the schema, run by `storage.schema`."""
