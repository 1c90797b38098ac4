"""The pages, for people who would rather look. Server-rendered, without a script; every one also is JSON."""

from __future__ import annotations

from fastapi import APIRouter

from tracker.web.pages import advisory, changes, compare, estimators, health, home, model, static, watches

router = APIRouter()
for part in (static, home, model, changes, compare, advisory, watches, estimators, health):
    router.include_router(part.router)
