"""A daemon at work is seen by a scraper, and its log can be read by a program."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import httpx

from tests.support.command import Hubwatch, wait_for
from tests.support.models import llama
from tracker.demo.hub import LoopbackHub

ENVIRONMENT = {
    "HUBWATCH_POLL_FLOOR": "1",
    "HUBWATCH_POLL_DEFAULT": "1",
    "HUBWATCH_PORT": "0",
    "HUBWATCH_LOG_FORMAT": "json",
    "HUBWATCH_LOG_LEVEL": "debug",
    "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz",
}
_API = re.compile(r'^hubwatch_hub_requests_total\{kind="api",status="200"\} (\S+)$', re.MULTILINE)


def test_a_daemon_counts_what_it_does_and_tells_it_line_by_line(
    hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path
) -> None:
    hub.tokens["hf_abcdefghijklmnopqrstuvwxyz"] = ()
    hub.create("acme/tiny").commit({"config.json": llama()}, title="Upload")
    hubwatch.environment.update(ENVIRONMENT)
    assert hubwatch("watch", "add", "acme/tiny", "--every", "1s").code == 0
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            hubwatch._command(("run",)), env=hubwatch._environment({}), cwd=hubwatch.home, stderr=stderr
        )
    try:
        (url,) = wait_for(lambda: re.findall(r"http://\S+(?=   stop)", log.read_text()), what="the start")
        assert httpx.get(f"{url}readyz").text == "ok\n"
        wait_for(lambda: float((_API.findall(httpx.get(f"{url}metrics").text) or ["0"])[0]) >= 3, what="checks")
        shown = httpx.get(f"{url}metrics", headers={"X-Request-ID": "scraper-1"})
        assert 'hubwatch_watches{state="ok"} 1.0' in shown.text
        assert "acme" not in shown.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
    finally:
        process.kill()
        process.wait()
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines() if not line.startswith("hubwatch runs")]
    checked = [line for line in lines if line["event"] == "checked"]
    assert checked
    assert len({line["check"] for line in checked}) == len(checked)
    asked = [line for line in lines if line["event"] == "hub request" and line.get("check") == checked[0]["check"]]
    assert asked
    assert {line["repo"] for line in asked} == {"acme/tiny"}
    assert any(line.get("request") == "scraper-1" for line in lines)
    assert "hf_abc" not in text
    assert "expand=" not in text
