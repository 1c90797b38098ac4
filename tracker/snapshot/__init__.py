"""Revisions, parsed: bytes of a repo's files become typed documents, tensor tables and gaps. No I/O."""
