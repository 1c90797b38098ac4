"""Templates and tokenizers made to hurt: each is a finding, the daemon stays small and goes on."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Hubwatch, wait_for
from tests.support.models import TEMPLATE, llama, tokenizer_config
from tracker.demo.hub import LoopbackHub

MOST_MEMORY = 400 << 20  # bytes of the daemon itself; its children have limits of their own
PATIENCE = 30  # seconds a poll may take on a busy machine; alone it takes less than ten
TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
}
_LETTER_GROWS = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100}
TEMPLATES = {
    "forever": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "gigabyte": "{% set n = namespace(s='x') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "output": "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "recursion": "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "power": "{{ (10 ** 9) ** (10 ** 7) }}",
    "nesting": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "trigger": "{% if 'hi' in messages[0].content %}{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}{% endif %}",
}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "regex": {
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(?:a|a|aa)+(?:a|a|aa)+" + "(?:a?){400}" + "b"},
            "behavior": "Isolated",
            "invert": False,
        }
    },
    "normalizer": {"normalizer": {"type": "Sequence", "normalizers": [_LETTER_GROWS] * 6}},
    "numbers": {"model": {"type": "WordLevel", "vocab": {"[UNK]": 2**31, "a": 0}, "unk_token": "[UNK]"}},
}


def tokenizer(**changes: Any) -> str:
    return json.dumps({**TOKENIZER, **changes})


@pytest.fixture
def repos(hub: LoopbackHub) -> dict[str, dict[str, str]]:
    """A good revision of each repo, and the files of the revision to come."""
    to_come = {name: {"tokenizer_config.json": tokenizer_config(text)} for name, text in TEMPLATES.items()}
    to_come |= {name: {"tokenizer.json": tokenizer(**parts)} for name, parts in TOKENIZERS.items()}
    for name in to_come:
        hub.create(f"hostile/{name}").commit(
            {
                "config.json": llama(),
                "tokenizer_config.json": tokenizer_config(TEMPLATE),
                "tokenizer.json": tokenizer(),
            },
            title="Upload",
        )
    return to_come


def told(hubwatch: Hubwatch) -> dict[str, set[str]]:
    """The classes said of the newest revision of each repo, the first files aside."""
    found: dict[str, set[str]] = {}
    for document in hubwatch.json("advisories")["advisories"]:
        name = document["affected"][0]["package"]["name"].rpartition("/")[2]
        found.setdefault(name, set()).add(document["database_specific"]["change_class"])
    return {name: classes - {"repo.first_files"} for name, classes in found.items()}


def test_each_is_a_finding_of_one_poll(
    hub: LoopbackHub, hubwatch: Hubwatch, repos: dict[str, dict[str, str]]
) -> None:
    assert hubwatch("watch", "add", "hostile/*").code == 0
    assert hubwatch("poll").code == 0
    assert not any(told(hubwatch).values())
    for name, files in repos.items():
        hub.repo(f"hostile/{name}").commit(files, title="Hurt")
    assert hubwatch("poll", timeout=PATIENCE * len(repos)).code == 0
    found = told(hubwatch)
    for name in repos:
        wanted = "template." if name in TEMPLATES else "token"
        assert any(cls.startswith(wanted) for cls in found[name]), (name, found[name])
    grave = {
        document["affected"][0]["package"]["name"].rpartition("/")[2]
        for document in hubwatch.json("advisories", "--min-severity", "high")["advisories"]
    }
    assert set(TEMPLATES) <= grave  # what could not be tried is never taken for equal


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_the_daemon_stays_small_and_goes_on(
    hub: LoopbackHub, hubwatch: Hubwatch, repos: dict[str, dict[str, str]]
) -> None:
    hubwatch.environment |= {"HUBWATCH_POLL_FLOOR": "1", "HUBWATCH_POLL_DEFAULT": "1", "HUBWATCH_PORT": "0"}
    good = hub.create("hostile/good")
    good.commit({"config.json": llama()}, title="Upload")
    assert hubwatch("watch", "add", "hostile/*", "--every", "1s").code == 0
    assert hubwatch("poll").code == 0
    worst = ("gigabyte", "power", "regex", "normalizer")
    for name in worst:
        hub.repo(f"hostile/{name}").commit(repos[name], title="Hurt")
    good.commit({"config.json": llama(rope_theta=5.0)}, title="Goes on")
    process = hubwatch.start("run")
    try:
        wait_for(
            lambda: all(told(hubwatch).get(name) for name in (*worst, "good")), seconds=180, what="all findings"
        )
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10 < MOST_MEMORY
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
