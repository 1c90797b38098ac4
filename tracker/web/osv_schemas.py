"""The OSV API's own shapes, as its readers know them, for the description of the API."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string", "maxLength": 1000}
_PACKAGE = {
    "type": "object",
    "properties": {"name": _TEXT, "ecosystem": _TEXT, "purl": _TEXT},
}
OSV_QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {"commit": _TEXT, "version": _TEXT, "package": _PACKAGE, "page_token": _TEXT},
    "examples": [
        {"commit": "3f6c1a0b" * 5},
        {
            "version": "3f6c1a0b" * 5,
            "package": {"ecosystem": "GIT", "name": "https://huggingface.co/acme/tiny-llm"},
        },
        {"package": {"purl": "pkg:huggingface/acme/tiny-llm"}},
    ],
}
OSV_BATCH: dict[str, Any] = {
    "type": "object",
    "required": ["queries"],
    "properties": {"queries": {"type": "array", "maxItems": 1000, "items": OSV_QUERY}},
}
OSV_VULNS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "vulns": {"type": "array", "items": {"type": "object"}},
        "next_page_token": {"type": "string"},
    },
}
OSV_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    "examples": [{"code": 5, "message": "Vulnerability not found"}],
}
