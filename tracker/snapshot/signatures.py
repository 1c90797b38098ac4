"""Signatures of models: which files they are, who signed, and what they vouch for. Nothing is verified here.

A sigstore bundle (model.sig, ``*.sigstore``, ``*.sigstore.json``) holds a certificate, whose subject alternative
name is the signer, and an in-toto statement that lists files with their hashes (model-signing 1.0).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from storage.model import Json, Snapshot
from tracker.snapshot.json_reader import Unreadable, read_json

_SUFFIXES: Final = (".sig", ".sigstore", ".sigstore.json", ".asc", ".minisig", ".p7s")
_SUBJECT_NAMES: Final = bytes.fromhex("0603551d11")  # 2.5.29.17
# Fulcio's issuer of the signer's login, 1.3.6.1.4.1.57264.1.8 and, before 2023, .1.1
_ISSUERS: Final = (bytes.fromhex("060a2b0601040183bf300108"), bytes.fromhex("060a2b0601040183bf300101"))
_NAME_TAGS: Final = (0x81, 0x82, 0x86)  # e-mail address, host name, URI
MAX_PAYLOAD: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What a sigstore bundle says: the signer, None where it cannot be told, and sha256 by file name."""

    signer: str | None
    files: Mapping[str, str] = field(default_factory=dict)


def is_signature(path: str) -> bool:
    """Whether a file is a signature by its name."""
    return PurePosixPath(path).name.lower().endswith(_SUFFIXES)


def bundles(snapshot: Snapshot) -> dict[str, Bundle]:
    """The sigstore bundles of a revision by path."""
    found: dict[str, Bundle] = {}
    for path, document in sorted(snapshot.documents.items()):
        if is_signature(path) and isinstance(document.data, dict) and "verificationMaterial" in document.data:
            found[path] = Bundle(signer=_signer(document.data), files=dict(_files(document.data)))
    return found


def _signer(bundle: Mapping[str, Json]) -> str | None:
    material = bundle.get("verificationMaterial")
    if not isinstance(material, dict):
        return None
    certificate = material.get("certificate")
    chain = material.get("x509CertificateChain")
    if certificate is None and isinstance(chain, dict):
        listed = chain.get("certificates")
        certificate = listed[0] if isinstance(listed, list) and listed else None
    raw = _decoded(certificate.get("rawBytes")) if isinstance(certificate, dict) else None
    if raw:
        return _named(raw) or f"certificate {hashlib.sha256(raw).hexdigest()[:32]}"
    key = material.get("publicKey")
    hint = key.get("hint") if isinstance(key, dict) else None
    return f"key {hint[:120]}" if isinstance(hint, str) and hint else None


def _decoded(text: Json) -> bytes | None:
    try:
        return (
            base64.b64decode(text, validate=True) if isinstance(text, str) and len(text) <= MAX_PAYLOAD else None
        )
    except (binascii.Error, ValueError):
        return None


def _named(certificate: bytes) -> str | None:
    """The subject alternative name, and who vouched for it, of a certificate in DER."""
    names = _extension(certificate, _SUBJECT_NAMES)
    if names is None or names[:1] != b"\x30":
        return None
    name = _value(names)
    if name is None or name[0] not in _NAME_TAGS:
        return None
    content = _value(name)
    if content is None:
        return None
    issuer = next((_text(value) for oid in _ISSUERS if (value := _extension(certificate, oid))), None)
    shown = content.decode("utf-8", "backslashreplace")
    return f"{shown} ({issuer})" if issuer else shown


def _text(value: bytes) -> str:
    """A UTF8String, or the bare text that early certificates hold."""
    content = _value(value) if value[:1] == b"\x0c" else value
    return (content or b"").decode("utf-8", "backslashreplace")


def _extension(certificate: bytes, oid: bytes) -> bytes | None:
    """The content of an extension: what its OCTET STRING holds."""
    place = certificate.find(oid)
    if place < 0:
        return None
    rest = certificate[place + len(oid) :]
    if rest[:2] == b"\x01\x01":  # critical
        rest = rest[3:]
    return _value(rest) if rest[:1] == b"\x04" else None


def _value(data: bytes) -> bytes | None:
    """The content of the DER value that data begins with; None where it is cut or empty."""
    if len(data) < 2:
        return None
    length, start = data[1], 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(data) < 2 + count:
            return None
        length, start = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    content = data[start : start + length]
    return content if content and len(content) == length else None


def _files(bundle: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """The files that the signed statement lists, with their sha256."""
    envelope = bundle.get("dsseEnvelope")
    payload = _decoded(envelope.get("payload")) if isinstance(envelope, dict) else None
    if payload is None:
        return
    try:
        statement, _ = read_json(payload, cap=MAX_PAYLOAD, need_object=True)
    except Unreadable:
        return
    predicate = statement.get("predicate")
    resources = predicate.get("resources") if isinstance(predicate, dict) else None
    for item in resources if isinstance(resources, list) else ():
        if isinstance(item, dict) and item.get("algorithm", "sha256") == "sha256":
            name, hashed = item.get("name"), item.get("digest")
            if isinstance(name, str) and isinstance(hashed, str):
                yield name, hashed.lower()


def unvouched(snapshot: Snapshot, path: str, bundle: Bundle) -> list[str]:
    """The large files beside a bundle whose content it does not vouch for: listed with another hash.

    Only files in LFS have a sha256 that can be compared without reading them.
    """
    folder = str(PurePosixPath(path).parent)
    place = "" if folder == "." else f"{folder}/"
    files = snapshot.manifest.files
    return sorted(
        f"{place}{name}"
        for name, hashed in bundle.files.items()
        if (entry := files.get(f"{place}{name}")) and entry.lfs_sha256 and entry.lfs_sha256 != hashed
    )
