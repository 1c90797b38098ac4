"""The profiles by name, for whoever lets a person choose."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracker.estimate.classic import ESTIMATOR as CLASSIC
from tracker.estimate.exact import ESTIMATOR as EXACT
from tracker.estimate.interface import Estimator

PROFILES: Final[Mapping[str, Estimator]] = MappingProxyType({EXACT.name: EXACT, CLASSIC.name: CLASSIC})
