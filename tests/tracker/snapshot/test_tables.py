"""Packed tables say what the plain objects say, and a file that is odd in any way is read as it always was."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.work import at_most
from tracker.snapshot.json_reader import Unreadable, read_json
from tracker.snapshot.layers import Layers, unlike
from tracker.snapshot.pointer import value_at
from tracker.snapshot.table_reader import LONG, read_tables
from tracker.snapshot.tables import Rules, RuleTable, Texts, TokenTable, packed_ids, plain, room, written
from tracker.snapshot.tokenizer import merges, vocabulary

TOKENS = 40_000


def tokenizer(vocab: Any, rules: Any, **more: Any) -> bytes:
    value = {"added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": rules}, **more}
    return json.dumps(value).encode()


def words(count: int = TOKENS) -> list[str]:
    chance = random.Random(3)  # noqa: S311
    return [f"Ġ{chance.randrange(16**8):08x}{number}" for number in range(count)]


def outcome(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except Unreadable as error:
        return error.reason, error.detail


VOCAB = {word: number for number, word in enumerate(words())}
PAIRS = [[word[:3], word[3:]] for word in VOCAB]
JOINED = [" ".join(pair) for pair in PAIRS]


def test_a_large_tokenizer_is_packed_and_says_the_same() -> None:
    data = tokenizer(VOCAB, PAIRS)
    value, flaws = read_tables(data, need_object=True)
    told = read_json(data, need_object=True)
    table, rules = value["model"]["vocab"], value["model"]["merges"]
    assert isinstance(table, TokenTable)
    assert isinstance(rules, RuleTable)
    assert (plain(value), flaws) == told
    assert list(table.items()) == list(VOCAB.items())
    assert list(table.values()) == list(VOCAB.values())
    assert list(vocabulary(value)) == list(VOCAB)
    assert "".join(written(value)) == json.dumps(told[0], separators=(",", ":"))
    assert list(merges(value)) == JOINED
    assert room(value) < len(data)


@pytest.mark.parametrize(
    "vocab",
    [
        pytest.param({word: number * 7 % TOKENS for number, word in enumerate(VOCAB)}, id="ids in no order"),
        pytest.param({f"\n\0{word}": number for number, word in enumerate(VOCAB)}, id="control characters"),
        pytest.param({f'"1,{word}\\': -number for number, word in enumerate(VOCAB)}, id="quotes and commas"),
        pytest.param({f"\ud800\U0001f9ff{word}": number for number, word in enumerate(VOCAB)}, id="surrogates"),
        pytest.param({"": 0, **VOCAB}, id="an empty token"),
        pytest.param({f"\n\0\U0010ffff{word}": number for number, word in enumerate(VOCAB)}, id="no separator"),
        pytest.param({**VOCAB, "odd": 1.5}, id="an id that is none"),
        pytest.param({**VOCAB, "odd": True}, id="a truth"),
        pytest.param({**VOCAB, "odd": 2**40}, id="an id that is too large"),
        pytest.param({**VOCAB, "odd": {"a": 1}}, id="an object among ids"),
        pytest.param([[word, -1.5 * number] for word, number in VOCAB.items()], id="scores"),
        pytest.param([[word, number] for word, number in VOCAB.items()], id="whole scores"),
        pytest.param([[word, number if number % 2 else 0.5] for word, number in VOCAB.items()], id="mixed scores"),
        pytest.param([*([word, 0.5] for word in VOCAB), ["odd"]], id="an entry without a score"),
        pytest.param([*([word, 0.5] for word in VOCAB), *([word, 0.25] for word in VOCAB)], id="scores twice"),
        pytest.param([*VOCAB], id="texts"),
        pytest.param([*VOCAB, 3], id="a number among texts"),
        pytest.param({word: word[:2] for word in VOCAB}, id="names of names"),
    ],
)
@pytest.mark.parametrize("rules", [JOINED, [*PAIRS, "a b"]], ids=["texts", "mixed"])
def test_whatever_is_in_a_table_reads_as_without_tables(vocab: Any, rules: Any) -> None:
    data = tokenizer(vocab, rules)
    value, flaws = read_tables(data, need_object=True)
    told, told_flaws = read_json(data, need_object=True)
    assert flaws == told_flaws
    assert json.dumps(plain(value)) == json.dumps(told)
    assert list(vocabulary(value).items()) == list(vocabulary(told).items())
    assert list(merges(value)) == list(merges(told))


def twice(data: bytes) -> bytes:
    return data.replace(b'"model"', b'"first": 1, "first": 2, "model"')


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: data.replace(b"}, ", b",}, ", 1), id="a comma too many"),
        pytest.param(lambda data: data.replace(b": 30000,", b": 30000,,", 1), id="two commas"),
        pytest.param(lambda data: data.replace(b": 30000,", b": 030000,", 1), id="a zero before a number"),
        pytest.param(lambda data: data.replace(b": 30000,", b": NaN,", 1), id="not a number"),
        pytest.param(lambda data: data.replace(b": 30000,", b": 1e999,", 1), id="infinite"),
        pytest.param(lambda data: data.replace(b": 30000,", b': 30000, "odd": 1, "odd": 2,', 1), id="a key twice"),
        pytest.param(lambda data: data[:-5], id="cut off"),
        pytest.param(lambda data: data[: len(data) // 3], id="cut off in a table"),
        pytest.param(lambda data: data[:-1] + b"]", id="the wrong bracket"),
        pytest.param(lambda data: data + b" x", id="more behind it"),
        pytest.param(lambda data: data.replace(b": 30000", b"\xff: 30000", 1), id="not UTF-8"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="a byte order mark"),
        pytest.param(lambda data: b"[" * 40 + data + b"]" * 40, id="too deep"),
        pytest.param(lambda data: b"[" + data + b"]", id="no object"),
        pytest.param(lambda data: b'{"other": ' + data + b"}", id="tables elsewhere"),
        pytest.param(twice, id="a key twice outside of the tables"),
    ],
)
def test_a_file_with_a_flaw_has_the_same_flaw(spoil: Callable[[bytes], bytes]) -> None:
    data = spoil(tokenizer(VOCAB, JOINED))
    found = outcome(lambda raw: read_tables(raw, need_object=True), data)
    told = outcome(lambda raw: read_json(raw, need_object=True), data)
    assert plain(found[0]) == told[0]
    assert found[1] == told[1]


def test_a_weight_index_becomes_a_dictionary_whose_files_are_shared() -> None:
    places = {f"model.layers.{number}.weight": f"model-{number % 9}.safetensors" for number in range(TOKENS)}
    data = json.dumps({"metadata": {"total_size": 1}, "weight_map": places}, indent=2).encode()
    value, flaws = read_tables(data, need_object=True)
    assert (value, flaws) == read_json(data, need_object=True)
    assert len(set(map(id, value["weight_map"].values()))) == 9


def test_a_vocabulary_of_its_own_is_a_table_and_a_small_one_is_not() -> None:
    value, _ = read_tables(json.dumps(VOCAB).encode())
    assert isinstance(value, TokenTable)
    assert value == VOCAB
    assert value == VOCAB
    assert value != {**VOCAB, "one": 1}
    assert value != {**VOCAB, next(iter(VOCAB)): 5}
    assert value == dict(reversed(VOCAB.items()))
    small, _ = read_tables(b'{"a": 1}')
    assert small == {"a": 1}
    assert len(json.dumps(VOCAB)) > LONG


def test_one_entry_is_found_by_a_pointer() -> None:
    value, _ = read_tables(tokenizer(VOCAB, PAIRS))
    token = words()[777]
    assert value_at(value, f"/model/vocab/{token}") == 777
    assert value_at(value, "/model/merges/39999") == PAIRS[39_999]
    assert value_at(value, "/model") == json.loads(tokenizer(VOCAB, PAIRS))["model"]
    json.dumps(value_at(value, ""))


def test_rules_that_hold_spaces_are_not_told_apart_by_them() -> None:
    for rules, apart in ((PAIRS, True), ([*PAIRS, ["a ", "b"]], False), ([*PAIRS, ["#version", ":"]], False)):
        value, _ = read_tables(tokenizer(VOCAB, rules))
        assert Rules(value["model"]["merges"]).told_apart is apart


def test_a_file_of_many_containers_costs_little_more_than_its_size() -> None:
    entry = json.dumps({f"k{number}": number for number in range(9)})
    data = ("[" + ",".join([entry] * 20_000) + "]").encode()
    with at_most(200_000):
        value, _ = read_tables(data)
    assert len(value) == 20_000


texts = st.text(max_size=6)


@given(st.lists(texts, min_size=1, max_size=40), texts)
def test_a_block_of_texts_gives_them_back(several: list[str], other: str) -> None:
    block = Texts.of(several)
    assert block.unpack() == several
    for text in (*several, other):
        assert block.index(text) == (several.index(text) if text in several else None)


tables = st.dictionaries(texts, st.integers(0, 9), max_size=30)


@given(st.lists(tables, max_size=4))
def test_layers_say_what_one_dictionary_of_all_says(several: list[dict[str, int]]) -> None:
    whole: dict[str, int] = {}
    for table in several:
        whole |= table
    packed = [
        TokenTable([(Texts.of([*table]), packed_ids([*table.values()]))]) if number % 2 and table else table
        for number, table in enumerate(several)
    ]
    layers = Layers(packed)
    assert layers == whole
    assert dict(layers.items()) == whole
    assert sorted(layers.values()) == sorted(whole.values())
    assert len(layers) == len(whole)
    assert all(layers[token] == place for token, place in whole.items())
    assert not whole or layers.most >= max(whole.values())


def test_layers_are_gone_through_without_looking_up_each_token() -> None:
    # what `Mapping` makes of these by itself takes the square of their number
    for name in ("items", "values", "__iter__", "__len__", "__getitem__"):
        assert name in vars(Layers)


@given(st.lists(tables, max_size=4), st.lists(tables, max_size=4))
def test_what_is_unlike_is_what_dictionaries_hold_differently(
    one: list[dict[str, int]], other: list[dict[str, int]]
) -> None:
    left, right = Layers(one), Layers(other)
    old, new = dict(left.items()), dict(right.items())
    found = unlike(left.pieces(), right.pieces())
    assert found[0] == {token: place for token, place in old.items() if new.get(token) != place}
    assert found[1] == {token: place for token, place in new.items() if old.get(token) != place}
