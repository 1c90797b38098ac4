"""Judges changes and phrases them: rules, ledger, OSV documents, feeds."""
