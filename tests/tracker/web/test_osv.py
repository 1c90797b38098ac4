from __future__ import annotations

import base64
import io
import json
import zipfile
from datetime import datetime
from email.utils import parsedate_to_datetime

import pytest

from storage.model import Severity
from tests.advisories.landing import Kept
from tests.advisories.story import finding, sha
from tests.tracker.web.conftest import Site


def test_a_commit_before_is_clean_the_introducing_and_later_ones_are_not_a_fixed_one_is(
    site: Site, kept: Kept
) -> None:
    b, c = kept.story.of("B").id, kept.story.of("C").id
    found = [site.client.post("/v1/query", json={"commit": sha(number)}).json() for number in range(6)]
    assert [[made["id"] for made in answer.get("vulns", [])] for answer in found] == [[], [b], [b], [c], [], [b]]
    assert found[0] == {}


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_a_body_is_json_whatever_its_type(site: Site, kind: str | None) -> None:
    body = json.dumps({"commit": sha(1), "package": {"name": "", "ecosystem": ""}}).encode()
    answer = site.client.post("/v1/query", content=body, headers={"Content-Type": kind} if kind else {})
    assert len(answer.json()["vulns"]) == 1


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b"{}", b'"x"', b"\xff\xfe", b"[" * 200_000, b'{"commit":1}', b"NaN"]
)
@pytest.mark.parametrize("path", ["/v1/query", "/v1/querybatch"])
def test_bodies_that_make_no_sense(site: Site, path: str, body: bytes) -> None:
    answer = site.client.post(path, content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["code"] == 3
    assert answer.json()["message"]


def test_batches(site: Site, kept: Kept) -> None:
    queries = [{"commit": sha(number)} for number in range(6)]
    results = site.client.post("/v1/querybatch", json={"queries": queries}).json()["results"]
    assert len(results) == 6
    assert results[0] == {}
    assert results[1]["vulns"][0]["id"] == kept.story.of("B").id
    assert set(results[1]["vulns"][0]) == {"id", "modified"}
    assert site.client.post("/v1/querybatch", json={"queries": queries * 200}).status_code == 400
    assert site.client.post("/v1/querybatch", json={"queries": []}).json() == {"results": []}


def test_what_is_not_there(site: Site) -> None:
    for path in ("/v1/vulns/x", "/v1/vulns/%00", "/v1/vulns/%ff"):
        answer = site.client.get(path)
        assert (answer.status_code, answer.json()) == (404, {"code": 5, "message": "Vulnerability not found"})
    assert site.client.get("/osv/GIT/x.json").status_code == 404
    assert site.client.post("/v1/query", json={"package": {"purl": "pkg:frobnicate/a@1"}}).json() == {}


def test_info_and_withdrawn_are_served_by_id_and_left_out_of_queries(site: Site, kept: Kept) -> None:
    made = finding("card:text", None, "b", cls="card.only", severity=Severity.INFO)
    kept.land({"config:rope": "B", "card:text": "b"}, findings=[made])
    info = kept.story.of("b").id
    assert site.get(f"/v1/vulns/{info}")["database_specific"]["severity"] == "INFO"
    answer = site.client.post("/v1/query", json={"commit": sha(6)}).json()
    assert [item["id"] for item in answer["vulns"]] == [kept.story.of("B").id]
    assert info in site.client.get("/osv/modified_id.csv").text


def test_the_bulk_files(site: Site, kept: Kept) -> None:
    rows = [line.split(",") for line in site.client.get("/osv/modified_id.csv").text.splitlines()]
    inner = [line.split(",") for line in site.client.get("/osv/GIT/modified_id.csv").text.splitlines()]
    assert [[when, name.removeprefix("GIT/")] for when, name in rows] == inner
    times = [datetime.fromisoformat(when) for when, _ in rows]
    assert times == sorted(times, reverse=True)
    assert site.client.get("/osv/ecosystems.txt").text == "GIT\n"
    with zipfile.ZipFile(io.BytesIO(site.client.get("/osv/all.zip").content)) as archive:
        assert archive.testzip() is None
        for when, name in inner:
            text = archive.read(f"{name}.json")
            assert json.loads(text)["modified"] == when
            assert site.client.get(f"/osv/GIT/{name}.json").content == text
    assert site.client.get("/osv/GIT/all.zip").content == site.client.get("/osv/all.zip").content


def test_what_lands_is_in_the_bulk_files_at_once(site: Site, kept: Kept) -> None:
    before = site.client.get("/osv/all.zip")
    kept.rope("D")
    assert kept.story.of("D").id in site.client.get("/osv/modified_id.csv").text
    after = site.client.get("/osv/all.zip")
    assert f"{kept.story.of('D').id}.json" in zipfile.ZipFile(io.BytesIO(after.content)).namelist()
    assert before.headers["x-goog-hash"] != after.headers["x-goog-hash"]


@pytest.mark.parametrize("path", ["/osv/all.zip", "/osv/GIT/all.zip"])
def test_head_of_an_archive_has_its_checksum_and_no_body(site: Site, path: str) -> None:
    head, whole = site.client.head(path), site.client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    name, _, value = head.headers["x-goog-hash"].partition("=")
    assert name == "crc32c"
    assert int.from_bytes(base64.b64decode(value), "big") == _crc32c(whole.content)
    assert head.headers["x-goog-hash"] == whole.headers["x-goog-hash"]


def _crc32c(data: bytes) -> int:
    """CRC-32C by its definition (RFC 3720, appendix B.4), bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_checksum_is_the_standards() -> None:
    assert _crc32c(bytes(32)) == 0x8A9136AA


def test_a_list_for_importers_of_single_files(site: Site) -> None:
    answer = site.client.get("/osv/all.json")
    rows = answer.json()
    assert len(rows) == 2
    assert set(rows[0]) == {"id", "modified"}
    newest = max(datetime.fromisoformat(row["modified"]) for row in rows)
    assert parsedate_to_datetime(answer.headers["last-modified"]) == newest.replace(microsecond=0)
    assert site.client.head("/osv/all.json").headers["last-modified"] == answer.headers["last-modified"]
    for row in rows:
        assert site.get(f"/osv/{row['id']}.json") == site.get(f"/v1/vulns/{row['id']}")
