"""Two revisions' ``tokenizer.json``, loaded side by side in the sandboxed child and asked to encode texts.

The texts are a fixed set of many scripts, code, numbers, white space and markup, and the tokens that the two
files themselves hold differently. Every text is encoded twice: bare, and with what the post-processor adds.
What a tokenizer raises is a result; what a limit of the child cuts off is a gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from storage.model import Change, DocumentKind, Json, ProbeOutcome, ProbeResult, Snapshot
from tracker.diff.values import short
from tracker.probe.process import Allowance, Sandbox
from tracker.snapshot.layers import Layers, unlike
from tracker.snapshot.tables import Rules, RuleTable, written
from tracker.snapshot.tokenizer import added_tokens, vocabulary

WALL_SECONDS = 5.0  # for one tokenizer: load it, encode everything
MAX_TOKENIZER = 96 << 20  # characters of JSON
_OWN_TOKENS = 16  # tokens of the two files, each kind, that are tried as text
_LONGEST_TOKEN = 200  # characters of such a token
_MOVED = 50  # tokens told to have other ids
_SHOWN_IDS = 64  # of the first difference
_LISTED = 40  # texts named in the facts
TEXTS: Mapping[str, str] = {
    "empty": "",
    "english": "The quick brown fox jumps over the lazy dog. It was a good movie, not a bad one!",
    "case": "HELLO World hELLO iPhone McDonald's don't WE'LL",
    "german": "Die Größe des Straßenschilds übersteigt fünfzig Zoll, daß ich's kaum glaub'.",
    "french": "L’été, où çà ? C'est déjà l'œuvre d'un garçon naïf — voilà…",
    "decomposed": "e\u0301te\u0301 A\u030angstro\u0308m n\u0303",
    "spanish": "¿Cuántos años tienes? ¡Mañana será otro día!",
    "polish": "Zażółć gęślą jaźń w Łodzi",
    "turkish": "İstanbul'da ılık bir gün, ŞİŞLİ",
    "vietnamese": "Tôi không biết tiếng Việt, nhưng tôi thích phở.",
    "russian": "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "greek": "Ο καιρός είναι ωραίος σήμερα, δεν νομίζεις;",
    "arabic": "مرحبا بالعالم، كيف حالك اليوم؟ ١٢٣",
    "hebrew": "שלום עולם, מה שלומך היום?",
    "hindi": "नमस्ते दुनिया, आप कैसे हैं? १२३",
    "bengali": "আমার সোনার বাংলা",
    "tamil": "வணக்கம் உலகம்",
    "thai": "สวัสดีชาวโลก วันนี้อากาศดี",
    "chinese": "今天天气不错，我们去公园散步吧。繁體中文也要試試。",
    "japanese": "吾輩は猫である。名前はまだ無い。カタカナも。",
    "korean": "안녕하세요, 오늘 날씨가 좋네요.",
    "georgian": "გამარჯობა მსოფლიო",
    "amharic": "ሰላም ለዓለም",
    "emoji": "Hi 👋🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ 🤖!!",
    "symbols": "∑∫√∞ ≠ ≤ → ⇒ € £ ¥ © ™ ½ ² ℃ №",
    "full_width": "ＡＢＣ１２３（全角）ﬁ ﬂ",
    "numbers": "0 7 42 100 1234 1,234,567.89 3.14159 1e-10 0xDEADBEEF 2024-01-31 12:34:56 +49 30 123456",
    "long_number": "31415926535897932384626433832795028841971693993751",
    "spaces": " leading  two   three    four     five ",
    "newlines": "a\nb\n\nc\n\n\nd\r\ne\tf\t\tg \n h",
    "only_spaces": "        ",
    "no_break": "a\u00a0b\u2009c\u3000d\u200be",
    "python": "def f(x: int) -> str:\n    if x != 0 and x <= 10:\n        return f\"{x:>5}\"\n    return ''\n",
    "c": '#include <stdio.h>\nint main(void) { printf("%d\\n", a[i++] << 2); return 0; }',
    "html": '<div class="a">&nbsp;<br/><!-- note --></div>',
    "json": '{"key": [1, 2.5, null, true], "nested": {"a": "b\\n"}}',
    "url": "https://example.org/path?q=a%20b&x=1#top mail@example.org @user #tag",
    "latex": r"\frac{a}{b} = \sum_{i=1}^{n} x_i^2 \$",
    "punctuation": "...!!!???---___***///\\\\\\'''\"\"\"```~~~",
    "long_word": "Donaudampfschifffahrtsgesellschaftskapitän pneumonoultramicroscopicsilicovolcanoconiosis",
    "repeated": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ababababababababab",
    "markers": "<s> </s> <unk> <pad> [CLS] [SEP] [MASK] [INST] [/INST] <|endoftext|> <|im_end|>",
    "more_markers": "<|eot_id|><|start_header_id|>user<|end_header_id|> <start_of_turn>model <think>x</think>",
    "control": "\x00\x07\x1b[0m\x7f\ufeff\ufffd",
    "rare": "𐍈𝔘𝕏𓀀 \U0001f9ff \ue000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """What both sides made of the texts, in their order: ids and tokens, bare and with special tokens.

    A side that raised or was cut off has none; ``error`` and ``gap`` then say so.
    """

    texts: tuple[str, ...]
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def encode(sandbox: Sandbox, before: Json, after: Json, texts: Iterable[str], allowance: Allowance) -> Encodings:
    """Load both tokenizers and encode the texts; the newer first, for if it fails the older is not needed."""
    wanted = tuple(texts)
    sides: dict[str, Mapping[str, Any]] = {}
    for name, data in (("after", after), ("before", before)):
        if "gap" in sides.get("after", {}):
            sides[name] = {"gap": "skipped"}
            continue
        sides[name] = _encode(sandbox, data, wanted, allowance)
    return Encodings(texts=wanted, before=sides["before"], after=sides["after"])


def _encode(sandbox: Sandbox, data: Json, texts: tuple[str, ...], allowance: Allowance) -> Mapping[str, Any]:
    if allowance.left <= 0:
        return {"gap": "skipped"}
    question = _question(data, texts)
    if question is None:
        return {"gap": "too_large"}
    answer = sandbox.ask(question, seconds=min(WALL_SECONDS, allowance.left))
    del question  # tens of megabytes
    if "gap" in answer or "error" in answer:
        return answer
    whole = all(
        isinstance(answer.get(key), list) and len(answer[key]) == len(texts) for key in ("plain", "special")
    )
    return answer if whole else {"gap": "died"}


def _question(data: Json, texts: tuple[str, ...]) -> bytearray | None:
    """The JSON of a request that holds the tokenizer as a text; None for one that is too large.

    Written in parts: of a large tokenizer neither its text nor its tables are ever whole beside it.
    """
    body = bytearray(f'{{"texts": {json.dumps(texts)}, "tokenizer": "'.encode("ascii"))
    size = 0
    for part in written(_light(data)):
        size += len(part)
        if size > MAX_TOKENIZER:
            return None
        body += json.dumps(part)[1:-1].encode("ascii")
    body += b'"}'
    return body


def _light(data: Json) -> Json:
    """A tokenizer whose merge rules are texts (``"a b"``) where they were pairs: loading it takes 100 MB less."""
    model = data.get("model") if isinstance(data, dict) else None
    table = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(table, RuleTable) or not table.of_texts:
        return data
    rules = Rules(table)
    return {**data, "model": {**model, "merges": rules}} if rules.told_apart else data


def pairs(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Json, Json]]:
    """Path and both contents of every ``tokenizer.json`` that is in both revisions and differs."""
    for document in after.by_kind(DocumentKind.TOKENIZER):
        other = before.documents.get(document.path)
        if other is not None and other.content_key != document.content_key:
            yield document.path, other.data, document.data


def texts_for(before: Snapshot, after: Snapshot, path: str) -> dict[str, str]:
    """The texts to try, by name: the fixed ones, and the tokens that the two files hold differently."""
    found = dict(TEXTS)
    old, new = before.documents[path], after.documents[path]
    tables = (
        ("added", added_tokens(old), added_tokens(new)),
        ("vocabulary", vocabulary(old.data), vocabulary(new.data)),
    )
    for kind, left, right in tables:
        fit = (token for token in _unlike(left, right) if 0 < len(token) <= _LONGEST_TOKEN)
        for number, token in enumerate(islice(fit, _OWN_TOKENS)):
            found[f"{kind} {number + 1}"] = f"x {token} y" if kind == "added" else _spoken(token)
    return found


def _unlike(left: Mapping[str, int], right: Mapping[str, int]) -> Iterator[str]:
    """Tokens that two tables hold differently, in the order of the first, then of the second."""
    old, new = unlike(Layers((left,)).pieces(), Layers((right,)).pieces())
    yield from old
    yield from (token for token in new if token not in old)


def _spoken(token: str) -> str:
    """A vocabulary entry as the text it stands for, as far as its marks for spaces and word parts tell."""
    return token.removeprefix("##").removesuffix("</w>").replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")


def results(names: Sequence[str], seen: Encodings) -> tuple[ProbeResult, ...]:
    """One result a text: the ids with special tokens where those differ, else without."""
    return tuple(_result(name, index, seen) for index, name in enumerate(names))


def _result(name: str, index: int, seen: Encodings) -> ProbeResult:
    probe = f"tokenize {name}"
    failed = {side: answer.get("error", answer.get("gap")) for side, answer in _sides(seen).items()}
    if any("gap" in answer for answer in _sides(seen).values()):
        return ProbeResult(
            probe=probe,
            outcome=ProbeOutcome.GAP,
            before_error=failed["before"],
            after_error=failed["after"],
        )
    if any(failed.values()):
        both = all(failed.values())
        return ProbeResult(
            probe=probe,
            outcome=ProbeOutcome.EQUAL if both else ProbeOutcome.DIFFERENT,
            before=None if failed["before"] else _shown(seen.before["special"][index]),
            after=None if failed["after"] else _shown(seen.after["special"][index]),
            before_error=failed["before"],
            after_error=failed["after"],
        )
    for key in ("plain", "special"):
        was, now = seen.before[key][index], seen.after[key][index]
        if was[0] != now[0]:
            return ProbeResult(probe=probe, outcome=ProbeOutcome.DIFFERENT, before=_shown(was), after=_shown(now))
    return ProbeResult(probe=probe, outcome=ProbeOutcome.EQUAL, before=_shown(seen.before["special"][index]))


def _sides(seen: Encodings) -> dict[str, Mapping[str, Any]]:
    return {"before": seen.before, "after": seen.after}


def _shown(encoding: Sequence[Sequence[Any]]) -> str:
    """Ids, and the tokens they stand for."""
    ids, tokens = encoding
    more = " ..." if len(ids) > _SHOWN_IDS else ""
    return f"{' '.join(map(str, ids[:_SHOWN_IDS]))}{more} ({' '.join(tokens[:_SHOWN_IDS])}{more})"


def facts(names: Sequence[str], seen: Encodings) -> dict[str, Json]:
    """What rules and pages need of the comparison.

    ``probes_run``, ``probes_different`` (names), ``probes_equal`` (all ran, none differs), ``probes_gap``,
    ``errors`` (by side), ``share`` of texts that differ, ``first_difference`` (probe, text, before, after) and
    ``moved`` (tokens seen with other ids).
    """
    every = results(names, seen)
    different = [index for index, result in enumerate(every) if result.outcome is ProbeOutcome.DIFFERENT]
    words = {str(answer["gap"]) for answer in _sides(seen).values() if "gap" in answer}
    gaps = sorted(words - {"skipped"} or words)
    errors = {side: str(answer["error"]) for side, answer in _sides(seen).items() if "error" in answer}
    found: dict[str, Json] = {
        "probes_run": len(every),
        "probes_different": [every[index].probe for index in different][:_LISTED],
        "probes_equal": not different and not gaps and not errors,
        "share": round(len(different) / len(every), 4) if every else 0.0,
    }
    if gaps:
        found["probes_gap"] = gaps
    if errors:
        found["errors"] = errors
    if different:
        first = min(different, key=lambda index: (len(seen.texts[index]), index))
        result = every[first]
        found["first_difference"] = {
            "probe": result.probe,
            "text": seen.texts[first],
            "before": result.before if result.before is not None else f"[{result.before_error}]",
            "after": result.after if result.after is not None else f"[{result.after_error}]",
        }
        found["moved"] = list(islice(_moved(seen), _MOVED))
    return found


def _moved(seen: Encodings) -> Iterator[Json]:
    """Tokens that both sides used, with another id on each."""
    if "plain" not in seen.before or "plain" not in seen.after:
        return
    known: list[dict[str, int]] = [{}, {}]
    for table, side in zip(known, (seen.before, seen.after), strict=True):
        for ids, tokens in (*side["plain"], *side["special"]):
            table.update(zip(tokens, ids, strict=False))
    old, new = known
    for token, place in old.items():
        if new.get(token, place) != place:
            yield {"token": token, "before": place, "after": new[token]}


def told(change: Change, found: Mapping[str, Json]) -> Change:
    """A tokenizer change with what the probes showed, in its facts and at the end of its summary."""
    run, different = found["probes_run"], len(found["probes_different"])
    if "errors" in found:
        names = sorted({"before": "old", "after": "new"}[side] for side in found["errors"])
        words = f"the {' and the '.join(names)} file cannot be loaded"
    elif "probes_gap" in found:
        words = f"could not be tried out ({', '.join(found['probes_gap'])})"
    elif different:
        words = f"{round(100 * found['share'])}% of {run} probe texts encode otherwise"
    else:
        words = f"none of {run} probe texts encodes otherwise"
    return replace(change, summary=f"{short(change.summary, limit=220)}; {words}", facts={**change.facts, **found})
