"""The description of the API holds: what it allows is answered as described, what it forbids is refused."""

from __future__ import annotations

import contextlib
from unittest import SkipTest

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from storage.model import Scope
from tests.advisories.landing import Kept
from tests.tracker.web.conftest import Site
from tracker.demo.hub import LoopbackHub

# A wish can be well-formed and still make no sense (two times that exclude each other): that is a 400.
_LEFT_OUT = {"positive_data_acceptance"}
_EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_what_the_description_says_holds(kept: Kept, upstream: LoopbackHub, mode: GenerationMode) -> None:
    site = Site(kept.database, web={"writes_per_minute": 100_000}, hub={"endpoint": upstream.url})
    header = site.token(Scope.WRITE)
    described = schemathesis.openapi.from_asgi("/openapi.json", site.app)
    left_out = [check for check in CHECKS.get_all() if check.__name__ in _LEFT_OUT]
    asked = 0
    for result in described.get_all_operations():
        operation = result.ok()
        if operation.path == "/api/v1/events":  # a stream that never ends; it has tests of its own
            continue

        @_EXAMPLES
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            case.call_and_validate(headers=header, excluded_checks=left_out)

        with contextlib.suppress(Unsatisfiable, SkipTest):  # nothing that its description forbids
            holds()
    assert asked > 100


def test_every_operation_has_words_a_shape_and_a_way_to_refuse(site: Site) -> None:
    described = site.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    operations = {
        (path, method): about for path, item in described["paths"].items() for method, about in item.items()
    }
    assert len(operations) > 25
    for where, about in operations.items():
        assert about.get("description"), where
        assert about["tags"], where
        good = [status for status in about["responses"] if status.startswith("2")]
        assert good, where
        if where[0].startswith("/api/v1"):
            problem = about["responses"]["404"]["content"]["application/problem+json"]["schema"]
            assert problem == {"$ref": "#/components/schemas/Problem"}
    writes = [
        about
        for (path, method), about in operations.items()
        if path.startswith("/api/v1/watches") and method != "get"
    ]
    assert len(writes) == 3
    assert all(about["security"] == [{"token": []}] for about in writes)
    assert "examples" in described["components"]["schemas"]["Problem"]
