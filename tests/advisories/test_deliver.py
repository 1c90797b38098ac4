"""From the outbox to a receiver: every event at least once, under a stable id, in order per repo."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

import pytest
import structlog
from standardwebhooks import Webhook as Signer

from advisories import deliver
from advisories.deliver import KEPT, RETRIES, Deliverer, send_test, verdict
from advisories.notify.interface import Answer
from advisories.notify.secrets import new_secret
from advisories.outbox import announcements, new_repo
from storage import advisories, deliveries, outbox, subscriptions
from storage.database import Database
from storage.errors import NotFound
from storage.model import (
    AdvisoryAction,
    AdvisoryEvent,
    DeliveryState,
    Digest,
    QuietHours,
    RepoRef,
    Severity,
    Subscription,
)
from tests.storage.support import advisory, sha
from tests.support.command import wait_for
from tests.support.receiver import Got, Receiver, Reply, receiving

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
REPO, OTHER = RepoRef(owner="acme", name="tiny"), RepoRef(owner="acme", name="other")
SECRET = new_secret()


@dataclass(slots=True)
class World:
    """A database, a clock that is moved by hand, and things that happen."""

    database: Database
    now: datetime = START
    made: list[Deliverer] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)

    def clock(self) -> datetime:
        return self.now

    def deliverer(self) -> Deliverer:
        self.made.append(Deliverer(self.database, self.clock))
        return self.made[-1]

    def subscribe(self, url: str, name: str = "sub_1", **changed: Any) -> Subscription:
        made = Subscription(
            id=name, url=url, secret=SECRET, settle=timedelta(0), allow_private=True, created_at=self.now
        )
        made = replace(made, **changed)
        with self.database.transaction() as tx:
            subscriptions.add(tx, made)
        return made

    def happen(self, number: int, action: str = "opened", repo: RepoRef = REPO, **changed: Any) -> str:
        """Something happens to an advisory; returns the event's key."""
        warned = advisory(number, repo=repo, cls="template.semantic", **changed)
        event = AdvisoryEvent(advisory_id=warned.id, action=AdvisoryAction(action), sha=sha((number, action)))
        told = announcements(repo, [event], {warned.id: warned}, now=self.now)
        with self.database.transaction() as tx:
            advisories.save(tx, warned)
            outbox.append(tx, told)
        self.happened += [item.key for item in told]
        self.now += timedelta(milliseconds=1)  # two commits are never observed in the same instant
        return told[0].key if told else ""

    def run(self, deliverer: Deliverer) -> None:
        """Tick until nothing more is due now."""
        for _ in range(50):
            if not deliverer.tick():
                return
            assert deliverer.settle(30)
        raise AssertionError("there is always something due")

    def wait(self, deliverer: Deliverer, span: timedelta, step: timedelta = timedelta(minutes=1)) -> None:
        """Let time pass, ticking all along."""
        until = self.now + span
        while self.now < until:
            self.now = min(self.now + step, until)
            self.run(deliverer)

    def log(self, name: str = "sub_1") -> list[tuple[DeliveryState, int]]:
        with self.database.snapshot() as tx:
            return [(item.state, item.attempts) for item in deliveries.log(tx, subscription_id=name)][::-1]


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    made = World(database)
    yield made
    assert all(deliverer.stop() for deliverer in made.made)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def keys(got: list[Got], repo: RepoRef | None = None) -> list[str]:
    events = [event for item in got for event in item.data["events"]]
    return [event["id"] for event in events if repo is None or event["repo"] == repo.id]


def signed(got: Got, secret: str = SECRET) -> bool:
    """The simulated clock is not today's, so the check of the time is left to the tests on the wire."""
    at = datetime.fromtimestamp(int(got.headers["webhook-timestamp"]), UTC)
    return Signer(secret).sign(got.id, at, got.body) == got.headers["webhook-signature"]


def test_a_receiver_that_fails_for_an_hour_gets_every_event_once_by_id_and_in_order(
    world: World, receiver: Receiver
) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    receiver.answer = lambda _: Reply(status=503)
    for number in range(12):
        world.happen(number, repo=(REPO, OTHER)[number % 2])
        world.wait(deliverer, timedelta(minutes=5))
    assert receiver.taken == []
    receiver.answer = lambda _: Reply()
    world.wait(deliverer, timedelta(hours=4), timedelta(minutes=10))
    assert sorted(keys(receiver.taken)) == sorted(world.happened)
    for repo in (REPO, OTHER):
        assert keys(receiver.taken, repo) == [key for key in world.happened if key in keys(receiver.taken, repo)]
    assert all(signed(got) for got in receiver.got)
    by_id: dict[str, set[str]] = {}
    for got in receiver.got:
        by_id.setdefault(got.id, set()).add(got.body)
    assert all(len(bodies) == 1 for bodies in by_id.values())
    assert len(by_id) == 12
    assert {state for state, _ in world.log()} == {DeliveryState.DELIVERED}


def test_attempts_are_spread_over_hours_and_end_as_a_dead_letter_that_can_be_replayed(
    world: World, receiver: Receiver
) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    receiver.answer = lambda _: Reply(status=500, pieces=lambda: iter([b"no \x1b[31m thanks"]))
    first = world.happen(1)
    world.run(deliverer)
    second = world.happen(2)
    for wait in RETRIES:
        count = len(receiver.got)
        world.wait(deliverer, wait - timedelta(seconds=1), wait)
        assert len(receiver.got) == count
        world.wait(deliverer, timedelta(seconds=1))
        assert len(receiver.got) > count
    assert world.log()[0] == (DeliveryState.DEAD, len(RETRIES) + 1)
    with world.database.snapshot() as tx:
        newest, oldest = deliveries.log(tx)
        tries = deliveries.attempts(tx, [oldest.number])[oldest.number]
        assert deliveries.log(tx, state=DeliveryState.DEAD) == [oldest]
        assert deliveries.log(tx, before=newest.number, limit=5) == [oldest]
        assert deliveries.get(tx, oldest.message_id) == oldest
        assert deliveries.counts(tx) == {"sub_1": {"dead": 1, "pending": 1}}
        with pytest.raises(NotFound):
            deliveries.get(tx, "msg_none")
    gaps = [(later.at - earlier.at).total_seconds() // 1 for earlier, later in pairwise(tries)]
    assert gaps == [wait.total_seconds() for wait in RETRIES]
    assert all(item.status == 500 and not item.delivered for item in tries)
    assert "\x1b" not in str(oldest.error)
    receiver.answer = lambda _: Reply()
    world.wait(deliverer, timedelta(minutes=1))
    assert keys(receiver.taken) == [second]
    with world.database.transaction() as tx:
        assert deliveries.replay(tx, "sub_1", now=world.now, states=(DeliveryState.DEAD,)) == 1
    world.run(deliverer)
    assert keys(receiver.taken) == [second, first]
    assert len({got.id for got in receiver.got}) == 2


def test_a_failing_subscription_holds_up_no_other(world: World, receiver: Receiver) -> None:
    release = threading.Event()
    with receiving() as slow, receiving() as down:
        down_url = down.url
        slow.answer = lambda _: Reply(before=lambda: release.wait(20))
        world.subscribe(slow.url, "sub_a_slow")
        world.subscribe(receiver.url, "sub_b_good")
        world.subscribe("http://nothing.invalid/", "sub_c_nowhere")
        world.subscribe(down_url, "sub_d_bad_secret", secret="env:HUBWATCH_TEST_NOT_SET")
        deliverer = world.deliverer()
        told = [world.happen(1)]
        assert deliverer.tick() == 4
        wait_for(lambda: keys(receiver.taken) == told)
        # the slow one is still at it, and what comes meanwhile goes to the others
        told.append(world.happen(2))
        assert deliverer.tick() >= 1
        wait_for(lambda: keys(receiver.taken) == told)
        assert slow.taken == slow.got != []
        release.set()
        assert deliverer.settle(30)
        world.run(deliverer)
        assert keys(slow.taken) == told
        assert down.got == []
    assert world.log("sub_c_nowhere")[0] == (DeliveryState.PENDING, 1)
    with world.database.snapshot() as tx:
        (error, *_) = [item.error for item in deliveries.log(tx, subscription_id="sub_d_bad_secret") if item.error]
    assert "HUBWATCH_TEST_NOT_SET is not set" in str(error)


def test_a_poisoned_message_holds_up_only_its_own_repo(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    poison = world.happen(1)
    after = world.happen(2)
    elsewhere = world.happen(3, repo=OTHER)
    receiver.answer = lambda got: Reply(status=400 if poison in got.body else 204)
    world.run(deliverer)
    assert keys(receiver.taken) == [elsewhere]
    world.wait(deliverer, sum(RETRIES, timedelta()), timedelta(minutes=30))
    world.wait(deliverer, timedelta(hours=30), timedelta(hours=1))
    assert keys(receiver.taken) == [elsewhere, after]


def test_killed_between_sending_and_noting_it_is_sent_again_under_the_same_id(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.subscribe(receiver.url)
    told = [world.happen(1), world.happen(2)]

    def die(*_: object, **__: object) -> None:
        raise SystemExit  # as little as a signal asks for: nothing is noted, not even the lease

    with monkeypatch.context() as patched:
        patched.setattr(deliveries, "record", die)
        patched.setattr(subscriptions, "release", die)
        first = world.deliverer()
        first.tick()
        assert first.settle(30)
    assert keys(receiver.got) == told[:1]
    second = world.deliverer()
    second.tick()
    assert second.settle(30)
    assert keys(receiver.got) == told[:1]  # the dead one's lease still holds
    world.now += deliver.LEASE
    world.run(second)
    assert keys(receiver.got) == [told[0], told[0], told[1]]
    assert receiver.got[0].id == receiver.got[1].id
    assert receiver.got[0].body == receiver.got[1].body


def test_two_daemons_by_mistake_send_once(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    told = [world.happen(number, repo=(REPO, OTHER)[number % 2]) for number in range(20)]
    both = [world.deliverer(), world.deliverer()]
    for _ in range(8):
        threads = [threading.Thread(target=deliverer.tick) for deliverer in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(deliverer.settle(30) for deliverer in both)
    assert sorted(keys(receiver.got)) == sorted(told)


def test_a_receiver_that_wants_nothing_more_is_left_alone_until_enabled(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    receiver.answer = lambda _: Reply(status=410)
    world.happen(1)
    world.happen(2)
    world.run(deliverer)
    assert len(receiver.got) == 1
    with world.database.snapshot() as tx:
        gone = subscriptions.require(tx, "sub_1")
    assert gone.disabled_at == world.now
    assert "410" in str(gone.disabled_reason)
    assert [state for state, _ in world.log()] == [DeliveryState.DEAD] * 2
    world.happen(3)
    receiver.answer = lambda _: Reply()
    world.wait(deliverer, timedelta(hours=1))
    assert len(receiver.got) == 1
    with world.database.transaction() as tx:
        subscriptions.enable(tx, "sub_1")
    fourth = world.happen(4)
    world.run(deliverer)
    assert keys(receiver.taken) == [fourth]


def test_the_receivers_own_wish_for_a_pause_is_kept(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    receiver.answer = lambda _: Reply(status=429, headers={"retry-after": "1800"})
    world.happen(1)
    world.run(deliverer)
    world.wait(deliverer, timedelta(minutes=29))
    assert len(receiver.got) == 1
    receiver.answer = lambda _: Reply()
    world.wait(deliverer, timedelta(minutes=2))
    assert len(receiver.taken) == 1


def test_only_what_is_observed_after_and_fits_the_filters_is_sent(world: World, receiver: Receiver) -> None:
    world.happen(1)
    world.now += timedelta(seconds=1)
    world.subscribe(receiver.url, min_severity=Severity.HIGH, repos=("acme/tiny",))
    deliverer = world.deliverer()
    world.happen(2, severity=Severity.MEDIUM)
    world.happen(3, repo=OTHER)
    assert world.happen(4, severity=Severity.INFO) == ""
    opened = world.happen(5)
    world.run(deliverer)
    world.now += timedelta(minutes=1)
    closed = world.happen(5, "fixed", holds=False)
    world.run(deliverer)
    assert keys(receiver.taken) == [opened, closed]
    told = receiver.taken[1].data
    assert told["repos"][0]["closed"][0]["how"] == "fixed"
    assert told["repos"][0]["closed"][0]["class"] == "template.semantic"
    assert told["title"].startswith("acme/tiny: 1 closed")


def test_a_flurry_within_the_settle_window_is_one_message_with_the_net_effect(
    world: World, receiver: Receiver
) -> None:
    world.subscribe(receiver.url, settle=timedelta(minutes=15))
    deliverer = world.deliverer()
    for number, action in ((1, "opened"), (2, "opened"), (1, "fixed"), (3, "fixed")):
        world.happen(number, action, holds=action == "opened")
        world.wait(deliverer, timedelta(minutes=3))
    assert receiver.got == []
    world.wait(deliverer, timedelta(minutes=4))
    (got,) = receiver.taken
    (repo,) = got.data["repos"]
    assert {net: [item["id"][-4:] for item in repo[net]] for net in ("opened", "closed", "undone")} == {
        "opened": ["0002"],
        "closed": ["0003"],
        "undone": ["0001"],
    }
    assert keys([got]) == world.happened


def test_digest_quiet_hours_and_new_repos(world: World, receiver: Receiver) -> None:
    night = QuietHours(begins=time(12), ends=time(14, 30))
    world.subscribe(receiver.url, digest=Digest.HOURLY, quiet=night)
    deliverer = world.deliverer()
    with world.database.transaction() as tx:
        outbox.append(tx, [new_repo(OTHER, now=world.now)])
    world.happen(1)
    world.wait(deliverer, timedelta(hours=1, minutes=30), timedelta(minutes=10))
    world.happen(2, repo=OTHER)
    assert receiver.got == []
    world.wait(deliverer, timedelta(hours=2), timedelta(minutes=10))
    (got,) = receiver.taken
    assert [(repo["repo"], repo["new"], len(repo["opened"])) for repo in got.data["repos"]] == [
        ("acme/other", True, 1),
        ("acme/tiny", False, 1),
    ]


def test_a_state_that_comes_and_goes_again_is_told_each_time(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    gated = advisory(1, repo=REPO, cls="repo.gated")
    for action in ("opened", "withdrawn", "reintroduced", "withdrawn"):
        event = AdvisoryEvent(advisory_id=gated.id, action=AdvisoryAction(action), sha=None)
        with world.database.transaction() as tx:
            advisories.save(tx, gated)
            assert outbox.append(tx, announcements(REPO, [event], {gated.id: gated}, now=world.now)) == 1
        world.wait(deliverer, timedelta(minutes=1))
    assert [got.data["events"][0]["action"] for got in receiver.taken] == [
        "opened",
        "withdrawn",
        "reintroduced",
        "withdrawn",
    ]


def test_replay_since_a_time_sends_the_same_ids_in_order(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    deliverer = world.deliverer()
    for number in range(4):
        world.happen(number)
        world.wait(deliverer, timedelta(hours=1), timedelta(hours=1))
    before = [got.id for got in receiver.got]
    with world.database.transaction() as tx:
        assert deliveries.replay(tx, "sub_1", now=world.now, since=START + timedelta(hours=2)) == 3
    world.run(deliverer)
    assert [got.id for got in receiver.got] == [*before, *before[1:]]
    assert [got.body for got in receiver.got][4:] == [got.body for got in receiver.got][1:4]


def test_the_log_is_kept_for_a_month_and_removing_takes_everything(world: World, receiver: Receiver) -> None:
    world.subscribe(receiver.url)
    world.subscribe(receiver.url, "sub_2", settle=timedelta(hours=1))
    deliverer = world.deliverer()
    world.happen(1)
    world.run(deliverer)
    world.now += KEPT + timedelta(hours=2)
    world.run(deliverer)
    assert world.log() == []
    assert [state for state, _ in world.log("sub_2")] == [DeliveryState.DELIVERED]
    world.happen(2)
    deliverer.tick()
    assert deliverer.settle(30)
    with world.database.transaction() as tx:
        assert outbox.pending(tx, 10) == []
        for name in ("sub_1", "sub_2"):
            subscriptions.remove(tx, name)
        with pytest.raises(NotFound):
            subscriptions.remove(tx, "sub_1")
        assert subscriptions.list_all(tx) == []
    world.run(deliverer)


def test_nothing_secret_is_logged(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving() as receiver:
        url = receiver.url.replace("http://", "http://me:hunter2@") + "?token=t0psecret"
        world.subscribe(url)
        world.subscribe(url.replace("http", "nobody"), "sub_2")
        deliverer = world.deliverer()
        receiver.answer = lambda _: Reply(status=500)
        world.happen(1)
        with structlog.testing.capture_logs() as logged:
            world.run(deliverer)
    with structlog.testing.capture_logs() as later:
        world.wait(deliverer, timedelta(seconds=5))
    assert receiver.got
    with world.database.snapshot() as tx:
        kept = [deliveries.attempts(tx, [item.number]) for item in deliveries.log(tx)]
    told = repr((logged, later, kept)) + "".join(capsys.readouterr())
    assert "500" in told
    for secret in (SECRET, SECRET[6:20], "hunter2", "t0psecret"):
        assert secret not in told


def test_a_test_message_is_signed_and_not_kept(world: World, receiver: Receiver) -> None:
    made = world.subscribe(receiver.url)
    test_id, answer = send_test(made, frozenset(), now=datetime.now(UTC))
    assert answer.delivered
    assert receiver.got[0].id == test_id
    Signer(SECRET).verify(receiver.got[0].body, receiver.got[0].headers)
    assert world.log() == []


@pytest.mark.parametrize("attempts", range(1, len(RETRIES) + 3))
def test_verdict(attempts: int) -> None:
    state, next_at = verdict(attempts, Answer(delivered=False), START)
    if attempts > len(RETRIES):
        assert state is DeliveryState.DEAD
    else:
        assert (state, next_at - START) == (DeliveryState.PENDING, RETRIES[attempts - 1])


def test_an_impatient_deliverer_tries_every_message_once_and_keeps_the_order(
    world: World, receiver: Receiver
) -> None:
    world.subscribe(receiver.url)
    receiver.answer = lambda _: Reply(status=503)
    for number in range(4):  # two repos, two messages each; the second stands behind the first
        world.happen(number, repo=(REPO, OTHER)[number % 2])
        world.run(world.deliverer())
    refused = len(receiver.got)
    hurried = Deliverer(world.database, world.clock, patient=False)
    world.made.append(hurried)
    world.run(hurried)
    assert len(receiver.got) == refused + 2  # the first of each repo, though no next try was due; and not again
    world.run(hurried)
    assert len(receiver.got) == refused + 2
    receiver.answer = lambda _: Reply()
    hurried = Deliverer(world.database, world.clock, patient=False)
    world.made.append(hurried)
    world.run(hurried)
    for repo in (REPO, OTHER):
        assert keys(receiver.taken, repo) == [key for key in world.happened if key in keys(receiver.taken, repo)]
    assert sorted(keys(receiver.taken)) == sorted(world.happened)
    with world.database.snapshot() as tx:
        assert deliveries.tried(tx, 0) == {DeliveryState.DELIVERED: 4}
        assert deliveries.tried(tx, deliveries.last_attempt(tx)) == {}
