"""Conversations that go on at another machine: their files come along by way of the store of packages."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_models import Call, Say

from skillyard import Catalog
from skillyard.conversations import ConversationStore
from skillyard.conversations.conversation import Turn
from skillyard.conversations.conversation_store import SqlSnapshotRecord
from skillyard.conversations.work_folder import WorkFolder
from skillyard.engine import ProcessIdentity
from skillyard.errors import ConversationBusy, RecordNotFound, StoreFailed
from skillyard.packages import LocalStore, digest_of
from skillyard.times import Timing
from skillyard.workspace import SnapshotLimits

FORM = b"%PDF-1.7 /AcroForm /T (name) /FT /Tx\n"
FILL = Call("run_skill", {"skill": "pdf", "entry": "scripts/fill.py", "arguments": ["form.pdf", "filled.pdf", "Ada"]})
OpenAt = Callable[[str], Awaitable[Any]]


@pytest.fixture
def open_at(
    open_chat: Any, skills_root: Path, pdf: Path, database_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenAt:
    """Give a function that opens a chat at a machine of that name: with its own disk, and the same records and store."""

    async def open_it(name: str) -> Any:
        monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / name))
        monkeypatch.setenv("SKILLYARD_DATABASE_URL", database_address)
        monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "store"))
        return await open_chat(catalog=Catalog.discover(roots=[skills_root]))

    return open_it


async def test_a_conversation_goes_on_at_another_machine_with_its_files(open_at: OpenAt) -> None:
    one, two = await open_at("one"), await open_at("two")
    two.conversation = one.conversation
    one.chat.folder(one.conversation).put("form.pdf", FORM)
    two.models.script(FILL, Say("Filled in."))
    turn, events = await two.say("Fill it in")
    assert (turn.state, two.models.faults) == ("done", [])
    assert [result["ok"] for result in two.results(events)] == [True]
    filled = FORM + b"% name=Ada\n"
    assert one.chat.folder(one.conversation).read("filled.pdf") == filled
    assert [file.name for file in one.chat.folder(one.conversation).list()] == ["filled.pdf", "form.pdf"]
    one.chat.folder(one.conversation).drop("form.pdf")
    two.chat.folder(two.conversation).bring()
    assert not Path(two.chat.folder(two.conversation).path, "form.pdf").exists()


async def test_a_store_that_cannot_be_written_is_said_and_ends_no_turn(open_at: OpenAt, tmp_path: Path) -> None:
    harness = await open_at("one")
    folder = harness.chat.folder(harness.conversation)
    folder.put("form.pdf", FORM)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_text("no folder", "utf-8")
    harness.models.script(FILL, Say("Filled in."))
    turn, events = await harness.say("Fill it in")
    assert (turn.state, turn.answer) == ("done", "Filled in.")
    notices = [event.data["text"] for event in events if event.kind == "notice"]
    assert [text.partition(":")[0] for text in notices] == ["the files could not be saved for other machines"]
    (tmp_path / "store").unlink()
    folder.keep()
    two = await open_at("two")
    assert two.chat.folder(harness.conversation).read("filled.pdf") == FORM + b"% name=Ada\n"


async def test_what_people_put_and_delete_is_recorded_while_the_store_fails(open_at: OpenAt, tmp_path: Path) -> None:
    harness, two = await open_at("one"), await open_at("two")
    folder = harness.chat.folder(harness.conversation)
    folder.put("form.pdf", FORM)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_text("no folder", "utf-8")
    folder.put("more.txt", b"more")
    folder.drop("form.pdf")
    assert [file.name for file in folder.list()] == ["more.txt"]
    assert [entry.path for entry in folder.disk.listing().entries] == ["more.txt"]
    (tmp_path / "store").unlink()
    harness.models.script(Say("Hello."))
    await harness.say("Hello")
    assert two.chat.folder(harness.conversation).read("more.txt") == b"more", "the next step saves it"
    assert [entry.path for entry in two.chat.folder(harness.conversation).disk.listing().entries] == ["more.txt"]


async def test_a_folder_over_the_limits_of_a_snapshot_takes_files_and_what_others_saved(
    open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await open_at("one"), await open_at("two")
    folder = one.chat.folder(one.conversation)
    folder.put("a.txt", b"a")
    elsewhere = two.chat.folder(one.conversation)
    elsewhere.put("b.txt", b"b")
    monkeypatch.setattr(SnapshotLimits.__init__, "__defaults__", (1, 1))
    folder.put("c.txt", b"c")
    folder.drop("a.txt")
    assert [file.name for file in folder.list()] == ["b.txt", "c.txt"]
    assert [entry.path for entry in folder.disk.listing().entries] == ["b.txt", "c.txt"]


async def test_each_outage_of_the_store_is_reported_once_and_an_overtaken_turn_tells_none(
    open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await open_at("one")
    failed = StoreFailed("the store is away")
    outcomes = [ConversationBusy("overtaken"), failed, failed, None, failed]

    def keep(_: WorkFolder) -> None:
        if outcomes and (outcome := outcomes.pop(0)) is not None:
            raise outcome

    monkeypatch.setattr(WorkFolder, "keep", keep)
    harness.models.script(*[Call("bash", {"command": f"echo {number}"}) for number in range(5)], Say("Done."))
    turn, events = await harness.say("Work")
    assert (turn.state, outcomes) == ("done", [])
    notices = [event.data["text"] for event in events if event.kind == "notice"]
    assert notices == ["the files could not be saved for other machines: the store is away"] * 2


async def test_a_deleted_conversation_leaves_nothing_in_the_store(open_at: OpenAt, tmp_path: Path) -> None:
    harness = await open_at("one")
    harness.chat.folder(harness.conversation).put("form.pdf", FORM)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    await harness.chat.delete(harness.conversation)
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    record = SqlSnapshotRecord(harness.chat.records.database, harness.conversation.id)
    assert record.current() is None
    with pytest.raises(RecordNotFound):
        record.replace(None, b"manifest")


async def test_deleting_can_be_repeated_after_the_store_failed(
    open_at: OpenAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await open_at("one")
    folder = harness.chat.folder(harness.conversation)
    folder.put("form.pdf", FORM)

    def fail(_: LocalStore, digest: str) -> bool:
        raise StoreFailed(f"{digest} cannot be deleted")

    with monkeypatch.context() as outage:
        outage.setattr(LocalStore, "delete", fail)
        with pytest.raises(StoreFailed):
            await harness.chat.delete(harness.conversation)
    assert not Path(folder.path).parent.exists(), "files at this machine need no store to go"
    await harness.chat.delete(await harness.chat.get(harness.conversation.id, "ada"))
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    with pytest.raises(RecordNotFound):
        await harness.chat.get(harness.conversation.id, "ada")


async def test_only_the_process_that_executes_the_turn_may_save_for_it(open_at: OpenAt) -> None:
    harness = await open_at("one")
    records: ConversationStore = harness.chat.records
    turn = records.start(Turn("turn_1", harness.conversation.id, 0, "running", "Work"))
    record = SqlSnapshotRecord(records.database, harness.conversation.id, turn.id)
    assert record.replace(None, b"first")
    assert not record.replace(None, b"second")
    assert (record.current(), record.read()) == (digest_of(b"first"), b"first")
    records.note(turn.id, state="interrupted")
    with pytest.raises(ConversationBusy):
        record.replace(digest_of(b"first"), b"second")
    assert record.read() == b"first"


async def test_a_turn_whose_machine_is_gone_can_be_stopped_and_the_conversation_goes_on(
    open_at: OpenAt, timing: Timing, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await open_at("one")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(ProcessIdentity, "current", lambda: "gone|boot|space|7|1")
        turn = harness.chat.records.start(Turn("turn_1", harness.conversation.id, 0, "running", "Work"))
    with pytest.raises(ConversationBusy):
        await harness.chat.send(harness.conversation, "Go on")
    monkeypatch.setattr(type(harness.chat._catalog), "timing", timing._replace(grace_s=0.01))
    assert not harness.chat.records.give_up(turn.id)  # nobody has asked for it
    assert await harness.chat.stop(turn)
    while (await harness.chat.turn(harness.conversation, turn.id)).state == "running":
        await asyncio.sleep(0.01)
    assert (await harness.chat.turn(harness.conversation, turn.id)).error_code == "interrupted"
    assert not await harness.chat.stop(turn)
    assert harness.chat.records.note(turn.id, answer="late")  # its process is told to stop
    assert harness.chat.records.turn(turn.id).answer != "late"
    harness.models.script(Say("On."))
    turn, _ = await harness.say("Go on")
    assert turn.answer == "On."


async def test_a_turn_that_is_executed_sends_heartbeats(open_at: OpenAt, timing: Timing) -> None:
    harness = await open_at("one")
    beats: list[str] = []
    harness.chat.records.heartbeat = beats.append
    harness.models.script(Call("bash", {"command": f"sleep {3 * timing.heartbeat_s:g}"}), Say("Done."))
    turn, _ = await harness.say("Work")
    assert (turn.state, set(beats)) == ("done", {turn.id})
