"""How much a licence allows, as far as its name says: enough to tell stricter from looser."""

from __future__ import annotations

import re
from typing import Final

# From free to closed. Names as the Hub's card metadata spells them, or SPDX; matched by prefix.
_RANKS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (4, ("cc-by-nc", "cc-nc", "fair-noncommercial", "apple-amlr", "apple-ascl", "deepfloyd", "intel-research")),
    (2, ("agpl", "gpl", "cc-by-sa", "osl", "eupl", "cc-by-nd", "odbl", "gfdl")),
    (3, ("llama", "gemma", "openrail", "bigscience", "bigcode", "creativeml", "hippocratic", "tii-", "grok")),
    (1, ("lgpl", "mpl", "epl", "cddl", "cecill", "ms-pl", "lgpl-lr", "etalab", "open-mdw")),
    (
        0,
        ("apache", "mit", "bsd", "isc", "cc0", "unlicense", "wtfpl", "zlib", "cc-by-", "pddl", "0bsd", "bsl-1.0",
         "afl", "artistic", "ecl", "ncsa", "postgresql", "cdla-permissive", "blueoak"),
    ),
)  # fmt: skip
_TEXTS: Final[tuple[tuple[str, str], ...]] = (
    (r"non-?commercial", "cc-by-nc"),
    (r"gnu affero general public", "agpl"),
    (r"gnu lesser general public", "lgpl"),
    (r"gnu general public", "gpl"),
    (r"llama \d[\d.]* community license", "llama"),
    (r"gemma terms of use", "gemma"),
    (r"openrail|responsible ai licen", "openrail"),
    (r"mozilla public license", "mpl"),
    (r"apache license", "apache"),
    (r"permission is hereby granted, free of charge", "mit"),
    (r"redistribution and use in source and binary forms", "bsd"),
    (r"cc0 1\.0 universal", "cc0"),
)


def rank_of(name: str) -> int | None:
    """0 permissive, 1 weak copyleft, 2 copyleft, 3 limits on use, 4 no commercial use; None: not known."""
    lowered = name.strip().lower()
    return next((rank for rank, prefixes in _RANKS if lowered.startswith(prefixes)), None)


def name_in(text: str) -> str | None:
    """The licence that a licence file's text is, by phrases of its opening; None: not known."""
    lowered = re.sub(r"\s+", " ", text[:20_000].lower())
    return next((name for phrase, name in _TEXTS if re.search(phrase, lowered)), None)


def stricter(before: str | None, after: str | None) -> bool | None:
    """Whether the second licence allows less than the first; None where either is not known."""
    if before is None or after is None:
        return None
    old, new = rank_of(before), rank_of(after)
    return None if old is None or new is None else new > old
