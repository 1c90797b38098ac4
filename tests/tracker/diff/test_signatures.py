"""Signatures: lost, of another signer, or no longer of the files they name."""

from __future__ import annotations

import base64
import json
from typing import Any

from storage.model import Change, FileEntry, Manifest, Snapshot
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.registry import compare, observe
from tracker.diff.signatures import DIFFER
from tracker.snapshot.build import build
from tracker.snapshot.signatures import bundles


def der(tag: int, content: bytes) -> bytes:
    head = bytes([len(content)]) if len(content) < 128 else b"\x82" + len(content).to_bytes(2, "big")
    return bytes([tag]) + head + content


def certificate(email: str, issuer: str = "https://accounts.example") -> str:
    names = der(0x30, bytes.fromhex("0603551d11") + b"\x01\x01\xff" + der(4, der(0x30, der(0x81, email.encode()))))
    login = der(0x30, bytes.fromhex("060a2b0601040183bf300108") + der(4, der(0x0C, issuer.encode())))
    return base64.b64encode(der(0x30, b"\x02\x01\x01" + names + login)).decode()


def bundle(email: str, files: dict[str, str] | None = None) -> dict[str, Any]:
    resources = [{"name": name, "digest": sha, "algorithm": "sha256"} for name, sha in (files or {}).items()]
    statement = {"subject": [], "predicate": {"resources": resources}}
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"certificate": {"rawBytes": certificate(email)}},
        "dsseEnvelope": {"payload": base64.b64encode(json.dumps(statement).encode()).decode()},
    }


def signed(sha256: str, signature: dict[str, Any]) -> Snapshot:
    """A repo of one large file and its signature."""
    base = snapshot_of({"model.sig": signature})
    weights = FileEntry(path="m.onnx_data", size=10, blob_id="b" * 40, lfs_sha256=sha256)
    manifest = Manifest(files={**base.manifest.files, "m.onnx_data": weights})
    data = {base.manifest.files["model.sig"].content_key: json.dumps(signature).encode()}
    return build(base.revision, manifest, data, {})


def diff(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    return list(DIFFER.diff(snapshot_of(before), snapshot_of(after)))


def test_a_signature_that_is_gone_until_it_is_there_again() -> None:
    before, after = snapshot_of({"model.sig": bundle("a@x.org"), "a.txt": b"x"}), snapshot_of({"a.txt": b"x"})
    (change,) = DIFFER.diff(before, after)
    assert (change.cls, change.path) == ("signature.lost", "model.sig")
    assert observe(after, change.facet) is None
    assert observe(before, change.facet) == change.before_digest
    assert [item.cls for item in compare(before, after, had_model=True)] == ["signature.lost"]


def test_every_kind_of_signature_counts_and_a_move_does_not() -> None:
    for name in ("w.sig", "w.sigstore", "w.sigstore.json", "w.asc", "w.minisig"):
        assert [change.cls for change in diff({name: b'{"a": 1}'}, {})] == ["signature.lost"]
    assert [change.cls for change in diff({"w.asc": b"s"}, {"sigs/w.asc": b"s"})] == ["file.other"]


def test_the_signer_is_the_name_in_the_certificate() -> None:
    assert bundles(snapshot_of({"model.sig": bundle("a@x.org")}))["model.sig"].signer == (
        "a@x.org (https://accounts.example)"
    )
    (change,) = diff({"model.sig": bundle("a@x.org")}, {"model.sig": bundle("eve@x.org")})
    assert (change.cls, change.facts["signer_changed"]) == ("signature.lost", True)
    assert "eve@x.org" in change.summary
    assert diff({"model.sig": bundle("a@x.org")}, {"model.sig": bundle("a@x.org", {"x": "0" * 64})}) == []


def test_files_that_are_no_longer_what_was_signed() -> None:
    old, new = "a" * 64, "c" * 64
    good = signed(old, bundle("a@x.org", {"m.onnx_data": old}))
    stale = signed(new, bundle("a@x.org", {"m.onnx_data": old}))
    (change,) = DIFFER.diff(good, stale)
    assert (change.cls, change.path, change.after) == ("signature.lost", "model.sig", ["m.onnx_data"])
    assert observe(good, change.facet) is None
    assert list(DIFFER.diff(stale, signed(new, bundle("a@x.org", {"m.onnx_data": new})))) == []


def test_nothing_in_a_bundle_is_trusted_to_make_sense() -> None:
    for broken in (
        {"verificationMaterial": 3},
        {"verificationMaterial": {"certificate": {"rawBytes": "!"}}},
        {"verificationMaterial": {"certificate": {"rawBytes": "BgNVHRE="}}},
        {
            "verificationMaterial": {"x509CertificateChain": {"certificates": [[]]}},
            "dsseEnvelope": {"payload": "e30="},
        },
        {"verificationMaterial": {"publicKey": {"hint": "k"}}, "dsseEnvelope": {"payload": "W10="}},
    ):
        assert list(bundles(snapshot_of({"model.sig": broken}))) == ["model.sig"]
