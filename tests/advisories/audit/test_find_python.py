from __future__ import annotations

from textwrap import dedent

import pytest

from advisories.audit.find.python import find
from advisories.audit.model import Unreadable
from advisories.audit.names import Names

SHA = "0123456789abcdef0123456789abcdef01234567"


def found(source: str) -> list[tuple[int, str, str | None]]:
    reading = find(dedent(source), Names())
    return sorted((item.line, item.repo, item.revision) for item in reading.references)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("M = 'acme/a'\nAutoModel.from_pretrained(M)", [(2, "acme/a", None)]),
        ("AutoModel.from_pretrained(pretrained_model_name_or_path='acme/a')", [(1, "acme/a", None)]),
        (f"AutoModel.from_pretrained('acme/a', revision='{SHA.upper()}')", [(1, "acme/a", SHA)]),
        ("AutoModel.from_pretrained('acme/a@v1')", [(1, "acme/a", "v1")]),
        ("(AutoModel\n .from_pretrained('acme/a')\n .cuda())", [(2, "acme/a", None)]),
        ("AutoModel.from_pretrained('gpt2')", [(1, "openai-community/gpt2", None)]),
        ("SentenceTransformer('all-MiniLM-L6-v2')", [(1, "sentence-transformers/all-MiniLM-L6-v2", None)]),
        ("pipeline('x', 'acme/a', tokenizer='acme/t')", [(1, "acme/a", None), (1, "acme/t", None)]),
        ("PeftModel.from_pretrained(base, 'acme/lora')", [(1, "acme/lora", None)]),
        ("O = 'acme'\nAutoModel.from_pretrained(f'{O}/a')", [(2, "acme/a", None)]),
        ("O = 'acme/'\nAutoModel.from_pretrained(O + 'a')", [(2, "acme/a", None)]),
        ("AutoModel.from_pretrained('%s/%s' % ('acme', 'a'))", [(1, "acme/a", None)]),
        ("AutoModel.from_pretrained('{}/a'.format('acme'))", [(1, "acme/a", None)]),
        ("AutoModel.from_pretrained('/'.join(['acme', 'a']))", [(1, "acme/a", None)]),
        ("D = {'x': {'id': 'acme/a'}}\nAutoModel.from_pretrained(D['x']['id'])", [(2, "acme/a", None)]),
        (
            "D = dict(x='acme/a')\nAutoModel.from_pretrained(D.get(k, 'acme/b'))",
            [(2, "acme/a", None), (2, "acme/b", None)],
        ),
        ("L = ['acme/a', 'acme/b']\nAutoModel.from_pretrained(L[1])", [(2, "acme/b", None)]),
        ("[load(m) for m in ['acme/a']]\ndef load(m):\n  AutoModel.from_pretrained(m)", [(3, "acme/a", None)]),
        (
            "for m in ('acme/a', 'acme/b'):\n  AutoModel.from_pretrained(m)",
            [(2, "acme/a", None), (2, "acme/b", None)],
        ),
        ("AutoModel.from_pretrained('acme/a' if x else 'acme/b')", [(1, "acme/a", None), (1, "acme/b", None)]),
        ("AutoModel.from_pretrained(os.environ.get('M', 'acme/a'))", [(1, "acme/a", None)]),
        ("AutoModel.from_pretrained(args.m or 'acme/a')", [(1, "acme/a", None)]),
        ("K = {'revision': 'v1'}\nAutoModel.from_pretrained('acme/a', **K)", [(2, "acme/a", "v1")]),
        ("f = partial(AutoModel.from_pretrained, 'acme/a')", [(1, "acme/a", None)]),
        ("if (m := 'acme/a'):\n  AutoModel.from_pretrained(m)", [(2, "acme/a", None)]),
        ("class M(Enum):\n  A = 'acme/a'\nAutoModel.from_pretrained(M.A.value)", [(3, "acme/a", None)]),
        ("class B:\n  m = 'acme/a'\nclass C(B): pass\nAutoModel.from_pretrained(C.m)", [(4, "acme/a", None)]),
        ("class C:\n  m = 'acme/a'\nc = C()\nAutoModel.from_pretrained(c.m)", [(4, "acme/a", None)]),
        (
            "class C:\n  m: str = Field(default='acme/a')\n  def f(self):\n    AutoModel.from_pretrained(self.m)",
            [(4, "acme/a", None)],
        ),
        (
            "class C:\n  def __init__(self, x): self.m=x\n  def f(self): A.from_pretrained(self.m)\nC('acme/a')",
            [(3, "acme/a", None)],
        ),
        (
            "p.add_argument('--model-id', default='acme/a')\nAutoModel.from_pretrained(p.parse_args().model_id)",
            [(2, "acme/a", None)],
        ),
        ("p.add_argument('--model-id', default='acme/a')", [(1, "acme/a", None)]),
        (
            "@click.option('--model', default='acme/a')\ndef f(model):\n  AutoModel.from_pretrained(model)",
            [(3, "acme/a", None)],
        ),
        ("def f(m='acme/a'):\n  AutoModel.from_pretrained(m)", [(2, "acme/a", None)]),
        ("P = 'hf://acme/a@v1/x.bin'\nopen(P)", [(2, "acme/a", "v1")]),
        ("open(f'hf://acme/a/{name}')", [(1, "acme/a", None)]),
        ("timm.create_model('hf-hub:acme/a')", [(1, "acme/a", None)]),
        ("get('https://huggingface.co/acme/a/resolve/v1/x.bin')", [(1, "acme/a", "v1")]),
        ("from mlx_lm import load\nload('acme/a')", [(2, "acme/a", None)]),
        ("snapshot_download('acme/a', repo_type='model')", [(1, "acme/a", None)]),
        ("é = 'ü'; AutoModel.from_pretrained('acme/a')", [(1, "acme/a", None)]),
    ],
)
def test_what_is_found(source: str, expected: list[tuple[int, str, str | None]]) -> None:
    assert found(source) == expected


def test_two_names_that_walk_together_are_paired() -> None:
    source = f"""
        for repo, sha in {{"acme/a": "{SHA}", "acme/b": "{SHA[::-1]}"}}.items():
            snapshot_download(repo, revision=sha)
    """
    assert found(source) == [(3, "acme/a", SHA), (3, "acme/b", SHA[::-1])]


def test_a_name_means_what_it_was_given_last() -> None:
    source = """
        m = "acme/a"
        AutoModel.from_pretrained(m)
        m = "acme/b"
        AutoModel.from_pretrained(m)
        if x:
            m = "acme/c"
        AutoModel.from_pretrained(m)
    """
    assert found(source) == [
        (3, "acme/a", None),
        (5, "acme/b", None),
        (8, "acme/b", None),
        (8, "acme/c", None),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "'''AutoModel.from_pretrained('acme/a')'''",
        "# AutoModel.from_pretrained('acme/a')",
        "M = 'acme/a'",
        "load_dataset('acme/a')",
        "snapshot_download('acme/a', repo_type='dataset')",
        "KIND = 'space'\nsnapshot_download('acme/a', repo_type=KIND)",
        "AutoModel.from_pretrained('./acme/a')",
        "AutoModel.from_pretrained('/acme/a')",
        "AutoModel.from_pretrained('../a')",
        "AutoModel.from_pretrained('checkpoints/a')",
        "AutoModel.from_pretrained('acme/a/b')",
        "AutoModel.from_pretrained('output')",
        "AutoModel.from_pretrained('your-name/model')",
        "AutoModel.from_pretrained('acme/a.safetensors')",
        "from modelscope import AutoModel\nAutoModel.from_pretrained('acme/a')",
        "torch.hub.load('acme/a', 'x')",
        "torch.load('acme/a')",
        "open('hf://datasets/acme/a/x')",
        "get('https://huggingface.co/acme/a')",
        "get('https://huggingface.co/datasets/acme/a/resolve/main/x')",
        "get('https://example.com/acme/a/resolve/main/x')",
        "open(f'hf://acme/a{name}/x')",
        "LLM(model='openai/gpt-4o')",
        "headers = {'Content-Type': 'application/json'}",
        "push_to_hub('acme/a')",
    ],
)
def test_what_is_no_reference(source: str) -> None:
    assert found(source) == []


def test_an_argument_that_cannot_be_followed_is_a_gap() -> None:
    reading = find("import x\nAutoModel.from_pretrained(x.NAME)", Names())
    assert [(gap.reason, gap.line) for gap in reading.gaps] == [("unresolved", 2)]


def test_columns_count_characters() -> None:
    place = find("ß = AutoModel.from_pretrained('acme/ä', 'x') or AutoModel.from_pretrained('acme/a')", Names())
    (reference,) = place.references
    assert (reference.place.column, reference.place.end_column) == (49, 84)


@pytest.mark.parametrize(
    "source",
    ["def (", "\0", "x = " + "(" * 1000, "a" + "+a" * 50_000 + "(", "if x:\n" * 200, "\ud800"],
)
def test_what_is_not_python_is_said_so(source: str) -> None:
    with pytest.raises(Unreadable):
        find(source, Names())


def test_work_is_bounded() -> None:
    chain = "a0 = 'acme/a'\n" + "".join(f"a{n} = a{n - 1} if x else a{n - 1}\n" for n in range(1, 60))
    loop = "a = b\nb = a\nAutoModel.from_pretrained(a)\n"
    wide = f"d = {{{', '.join(f'{n}: {n}' for n in range(5000))}}}\nAutoModel.from_pretrained(d[x])\n"
    deep = "x = " + " + ".join(["'a'"] * 900) + "\nAutoModel.from_pretrained(x)\n"
    product = "m = ['a', 'b']\nAutoModel.from_pretrained(f'" + "{m[i]}" * 200 + "')\n"
    for source in (chain + "AutoModel.from_pretrained(a59)\n", loop, wide, deep, product):
        find(source, Names())


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("AutoModel.from_pretrained(pick())", [1]),
        ("AutoModel.from_pretrained(input())", [1]),
        ("AutoModel.from_pretrained(os.environ['MODEL'])", [1]),
        ("def f(m):\n  AutoModel.from_pretrained(m)\n  AutoTokenizer.from_pretrained(m)", [2, 3]),
        ("AutoModel.from_pretrained(f'{owner()}/a')", [1]),
        ("AutoModel.from_pretrained(*given)", [1]),
        ("AutoModel.from_pretrained(**given)", [1]),
        ("AutoModel.from_pretrained('acme/a' if x else pick())", [1]),
        ("m = 'acme/a' if x else pick()\nAutoModel.from_pretrained(m)", [2]),
        ("AutoModel.from_pretrained(args.model or 'acme/a')", [1]),
        ("pipeline('x', model=pick())", [1]),
        ("pipeline('x', model=model_name)", [1]),
        # a local path, nothing, a model that is loaded already, what a download gave back
        ("AutoModel.from_pretrained(Path(x) / 'y')", []),
        ("AutoModel.from_pretrained(os.path.join(x, 'y'))", []),
        ("AutoModel.from_pretrained('./x')", []),
        ("AutoModel.from_pretrained(None)", []),
        ("AutoModel.from_pretrained(snapshot_download('acme/a'))", []),
        ("AutoModel.from_pretrained(os.environ.get('M', 'acme/a'))", []),
        ("pipeline('x', model=model, tokenizer=tokenizer)", []),
        ("pipeline('x', model=load_model())", []),
        ("pipeline('x')", []),
    ],
)
def test_calls_whose_model_cannot_be_told_are_gaps_once_each(source: str, lines: list[int]) -> None:
    reading = find(source, Names())
    assert [gap.line for gap in reading.gaps] == lines
    assert {gap.reason for gap in reading.gaps} <= {"unresolved"}


@pytest.mark.parametrize(
    ("source", "pinning"),
    [
        ("AutoModel.from_pretrained('acme/a', revision=pick())", "unknown"),
        ("AutoModel.from_pretrained('acme/a', **kw)", "unknown"),
        ("def f(**kw):\n  AutoModel.from_pretrained('acme/a', **kw)", "unknown"),
        ("def f(rev=None):\n  AutoModel.from_pretrained('acme/a', revision=rev)", "unknown"),
        ("k = {'x': 1}\nk.update(y)\nAutoModel.from_pretrained('acme/a', **k)", "unknown"),
        ("AutoModel.from_pretrained('acme/a', **{'x': 1, **kw})", "unknown"),
        ("R = {'x': 'v1', 'y': 'v2'}\nAutoModel.from_pretrained('acme/a', revision=R[z])", "unknown"),
        ("open(f'hf://acme/a@{pick()}/x')", "unknown"),
        ("AutoModel.from_pretrained('acme/a')", "floating"),
        ("AutoModel.from_pretrained('acme/a', revision=None)", "floating"),
        ("R = None\nAutoModel.from_pretrained('acme/a', revision=R)", "floating"),
        ("k = {'x': 1}\nAutoModel.from_pretrained('acme/a', **k)", "floating"),
        ("k = dict(x=1)\nAutoModel.from_pretrained('acme/a', **k)", "floating"),
        ("def f(rev='main'):\n  AutoModel.from_pretrained('acme/a', revision=rev)", "floating"),
        (f"AutoModel.from_pretrained('acme/a', revision='{SHA}', **kw)", "pinned"),
        (f"k = {{}}\nk['revision'] = '{SHA}'\nAutoModel.from_pretrained('acme/a', **k)", "pinned"),
    ],
)
def test_floating_is_said_only_where_it_is_certain(source: str, pinning: str) -> None:
    (reference,) = find(source, Names()).references
    assert reference.pinning.value == pinning


def test_a_path_beside_a_call_of_the_same_repo_counts_at_its_own_line() -> None:
    source = """
        AutoModel.from_pretrained("acme/a")
        P = "hf://acme/a/x.bin"
        Q = "hf://acme/a/y.bin"
        open(Q)
        BASE = "hf://acme/a"
        files = [f"{BASE}/1", f"{BASE}/2"]
    """
    assert found(source) == [(line, "acme/a", None) for line in (2, 3, 5, 7, 7)]
