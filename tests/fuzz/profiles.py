"""How much is tried: the same few examples in every test run, or new ones for as long as asked."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

CI = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
LONG = settings(
    max_examples=400,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    print_blob=True,
)
