"""Approvals that are kept: the same tests on every store, then what only the records can do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from skillyard.database import Database
from skillyard.errors import ApprovalRejected, DatabaseUnavailable
from skillyard.library import Catalog
from skillyard.permissions import ApprovalAnswer, ApprovalStore, MemoryApprovalStore, PolicyApprover, SqlApprovalStore

MakeStore = Callable[[str], ApprovalStore]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make_store(request: pytest.FixtureRequest, tmp_path, address_of) -> MakeStore:
    """Give a function that opens the approvals of a workspace."""
    if request.param == "memory":
        return MemoryApprovalStore
    url = address_of(request.param, bare=False)
    return lambda workspace: SqlApprovalStore(lambda: Database.open(str(tmp_path), url), workspace)


@pytest.mark.row("001-18")
def test_exactly_the_approved_content_is_approved(make_store):
    store = make_store("/work")
    assert not store.has("user:deploy", "sha256:one")
    store.add("user:deploy", "sha256:one")
    assert store.has("user:deploy", "sha256:one")
    assert not store.has("user:deploy", "sha256:two")
    assert not store.has("user:other", "sha256:one")


def test_newer_content_takes_the_place_of_older(make_store):
    store = make_store("/work")
    before = datetime.now(UTC).replace(microsecond=0)
    for digest in ("sha256:one", "sha256:two"):
        store.add("user:deploy", digest)
    store.add("user:b", "sha256:three")
    assert [(kept.workspace, kept.skill_id, kept.digest) for kept in store.approved()] == [
        ("/work", "user:b", "sha256:three"),
        ("/work", "user:deploy", "sha256:two"),
    ]
    assert all(kept.approved_at >= before for kept in store.approved())
    assert store.approved()[0].to_dict()["approved_at"].endswith("Z")


def test_an_approval_can_be_taken_back_once(make_store):
    store = make_store("/work")
    store.add("user:deploy", "sha256:one")
    assert store.remove("user:deploy")
    assert not store.remove("user:deploy")
    assert not store.has("user:deploy", "sha256:one")


def test_many_answers_at_once_leave_one_approval(make_store):
    store = make_store("/work")
    ready = threading.Barrier(8)

    def answer(number: int) -> None:
        ready.wait(10)
        store.add("user:deploy", f"sha256:{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(answer, range(8)))
    assert len(store.approved()) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_workspaces_and_processes_share_the_records_and_nothing_else(kind, tmp_path, address_of):
    url = address_of(kind, bare=False)

    def opened(workspace: str) -> SqlApprovalStore:
        return SqlApprovalStore(lambda: Database.open(str(tmp_path), url), workspace)

    opened("/one").add("user:a", "sha256:1")
    opened("/two").add("user:a", "sha256:2")
    assert opened("/one").has("user:a", "sha256:1")
    assert not opened("/two").has("user:a", "sha256:1")
    assert [kept.workspace for kept in opened("/one").everywhere()] == ["/one", "/two"]
    assert not opened("/three").remove("user:a")


def test_records_that_cannot_be_opened_approve_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    store = SqlApprovalStore(lambda: Database.open(str(tmp_path / "file")), "/work")
    for use in (lambda: store.has("user:a", "sha256:1"), lambda: store.add("user:a", "sha256:1"), store.approved):
        with pytest.raises(DatabaseUnavailable):
            use()


@pytest.fixture
def asked_about(tmp_path, make_skill, monkeypatch) -> Callable[[], Catalog]:
    """Give a function that finds one skill, about which a rule says to ask."""
    make_skill(tmp_path / "skills", "deploy", files={"scripts/execute.py": "print('ran')"})
    (tmp_path / "skillyard.toml").write_text('[permissions.skills]\ndeploy = "ask"\n')
    monkeypatch.chdir(tmp_path)
    return lambda: Catalog.discover(roots=[tmp_path / "skills"], cwd=tmp_path)


@pytest.mark.row("001-18")
async def test_an_answer_for_the_session_lasts_as_long_as_the_catalog(asked_about):
    class Person:
        asked = 0

        async def ask(self, request):
            self.asked += 1
            return ApprovalAnswer("session")

    person, catalog = Person(), asked_about()
    for _ in range(2):
        assert (await catalog.run("deploy", approver=person)).ok
    assert person.asked == 1
    await asked_about().run("deploy", approver=person)
    assert person.asked == 2


@pytest.mark.row("001-18")
async def test_an_answer_for_the_workspace_holds_in_the_next_program(asked_about, home):
    assert (await asked_about().run("deploy", approver=PolicyApprover("workspace"))).ok
    assert (await asked_about().run("deploy", approver=PolicyApprover("reject"))).ok
    assert (home / "skillyard" / "skillyard.db").is_file()
    asked_about().approvals().revoke("config:deploy")
    with pytest.raises(ApprovalRejected):
        await asked_about().run("deploy", approver=PolicyApprover("reject"))
