"""The `anthropic` SDK, as it is, manages skills here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lazily import Lazily
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import create_app

anthropic, library = Lazily("anthropic"), Lazily("anthropic.lib")

pytestmark = pytest.mark.xdist_group("sdks")  # importing them takes longer than their tests
Pack = Callable[..., bytes]
Write = Callable[..., Path]


@pytest.fixture(params=["generally available", "beta"])
def skills(address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Its skills: without a header of a beta as since August 2026, and as before."""
    with anthropic.Anthropic(api_key="any", base_url=f"{address}/anthropic") as made:
        yield made.skills if request.param == "generally available" else made.beta.skills


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Give a function that writes the folder of a skill."""

    def make(name: str = "tidy", body: str = "One.", *, header: str = "", files: dict[str, str] | None = None) -> Path:
        folder = tmp_path / "written" / name
        text = f"---\nname: {name}\ndescription: Tidies {body} Use when a test needs a skill.\n{header}---\n{body}\n"
        for path, content in {"SKILL.md": text, **(files or {})}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, "utf-8")
        return folder

    return make


def test_a_skill_is_created_from_files_listed_and_retrieved(skills: Any, write: Write) -> None:
    made = skills.create(files=library.files_from_dir(write(files={"references/a b.md": "text"})))
    assert (made.id, made.type, made.source.type, made.display_name) == ("skill_tidy", "skill", "custom", "tidy")
    assert skills.retrieve(made.id) == made
    assert list(skills.list()) == [made]
    assert list(skills.list(source="anthropic")) == []


def test_a_skill_is_shown_under_the_name_it_is_created_with(skills: Any, write: Write) -> None:
    made = skills.create(display_name="My Tidy\nSkill", files=library.files_from_dir(write(header="displayName: Else\n")))
    assert (made.id, made.display_name) == ("skill_tidy", "My Tidy Skill")
    skills.versions.create(made.id, files=library.files_from_dir(write(body="Two.")))
    assert skills.retrieve(made.id).display_name == "My Tidy Skill"
    assert [skill.display_name for skill in skills.list()] == ["My Tidy Skill"]
    skills.delete(made.id)
    again = skills.create(files=library.files_from_dir(write(body="Three.", header="displayName: Else\n")))
    assert again.display_name == "Else", "one that is made again has no name of before"


def test_a_name_that_is_too_long_is_refused_and_leaves_nothing(skills: Any, write: Write) -> None:
    files = library.files_from_dir(write())
    with pytest.raises(anthropic.APIStatusError, match="display name: over 255 characters"):
        skills.create(display_name="x" * 256, files=files)
    assert list(skills.list()) == []
    assert skills.create(display_name="x" * 255, files=files).display_name == "x" * 255


def test_versions_are_added_read_downloaded_and_deleted(skills: Any, write: Write) -> None:
    skill = skills.create(files=library.files_from_dir(write()))
    second = skills.versions.create(skill.id, files=library.files_from_dir(write(body="Two.")))
    assert skills.versions.create(skill.id, files=library.files_from_dir(write(body="Two."))) == second
    assert [one.id for one in skills.versions.list(skill.id)] == [second.id, skill.latest_version_id]
    assert skills.versions.retrieve("latest", skill_id=skill.id) == second
    assert (second.name, second.skill_id, second.type) == ("tidy", skill.id, "skill_version")
    assert "Two." in second.description
    first = skills.versions.retrieve(skill.latest_version_id, skill_id=skill.id)
    assert "One." in first.description
    if hasattr(skills.versions, "download"):  # which only the beta of the SDK has
        content = skills.versions.download(second.id, skill_id=skill.id).read()
        assert zipfile.ZipFile(io.BytesIO(content)).namelist() == ["tidy/SKILL.md"]
    gone = skills.versions.delete(second.id, skill_id=skill.id)
    assert (gone.id, gone.type) == (second.id, "skill_version_deleted")
    assert skills.retrieve(skill.id).latest_version_id == first.id


@pytest.mark.parametrize("skills", ["beta"], indirect=True)
def test_the_versions_of_the_beta_are_times(skills: Any, write: Write) -> None:
    beta = ["skills-2025-10-02"]
    sent = {"display_title": "Tidy it"}
    skill = skills.create(files=library.files_from_dir(write()), betas=beta, extra_body=sent)
    old = skill.model_extra or {}
    time = str(old["latest_version"])
    assert (skill.source, old["display_title"]) == ("custom", "Tidy it")
    assert [one.source for one in (skills.retrieve(skill.id, betas=beta), *skills.list(betas=beta))] == ["custom"] * 2
    assert time.isdecimal()
    assert len(time) == 16
    found = skills.versions.retrieve(time, skill_id=skill.id)
    assert (found.id, (found.model_extra or {})["version"]) == (skill.latest_version_id, time)


def test_a_skill_whose_versions_were_all_deleted_is_deleted_and_can_be_made_again(skills: Any, write: Write) -> None:
    for _ in range(2):
        skill = skills.create(files=library.files_from_dir(write()))
        for version in skills.versions.list(skill.id):
            skills.versions.delete(version.id, skill_id=skill.id)
        assert skills.delete(skill.id).type == "skill_deleted"
        assert list(skills.list()) == []
        with pytest.raises(anthropic.NotFoundError):
            skills.retrieve(skill.id)


def test_lists_come_in_pages(skills: Any, write: Write) -> None:
    for name in ("a", "b", "c"):
        skills.create(files=library.files_from_dir(write(name)))
    page = skills.list(limit=2)
    assert [skill.id for skill in page.data] == ["skill_a", "skill_b"]
    skills.delete("skill_b")
    assert [skill.id for skill in page.get_next_page().data] == ["skill_c"]
    for number in range(3):
        skills.versions.create("skill_a", files=library.files_from_dir(write("a", f"{number}.")))
    assert len({one.id for one in skills.versions.list("skill_a", limit=1)}) == 4
    with pytest.raises(anthropic.BadRequestError, match="is not a valid page"):
        skills.list(page="€")


def test_more_power_is_refused_and_agreed_to(skills: Any, write: Write) -> None:
    skill = skills.create(files=library.files_from_dir(write()))
    wider = library.files_from_dir(write(files={"scripts/run.py": "print(1)\n"}))
    with pytest.raises(anthropic.PermissionDeniedError, match=r"scripts/run\.py") as refused:
        skills.versions.create(skill.id, files=wider)
    body = refused.value.body
    assert isinstance(body, dict)
    assert (body["type"], body["error"]["type"]) == ("error", "permission_error")
    consent = "sha256:" + body["error"]["message"].partition("sha256:")[2][:64]
    version = skills.versions.create(skill.id, files=wider, extra_query={"consent": consent})
    assert skills.retrieve(skill.id).latest_version_id == version.id


@pytest.mark.parametrize(
    ("files", "status", "reported"),
    [
        ([("tidy/notes.md", b"x")], 422, "no skill in it"),
        ([("tidy/SKILL.md", b"no front matter")], 422, "SKILL.md"),
        ([("SKILL.md", b"---\nname: tidy\ndescription: Tidies.\n---\n")], 422, "one folder"),
        ([("tidy/SKILL.md", b"---\nname: tidy\ndescription: Tidies.\n---\n"), ("other.md", b"x")], 422, "other.md"),
        ([("tidy/SKILL.md", b"---\nname: tidy\ndescription: T.\n---\n"), ("tidy/../../x", b"x")], 422, ".."),
        ([("tidy/SKILL.md", b"---\nname: tidy\ndescription: T.\n---\n"), ("tidy/A.md", b""), ("tidy/a.md", b"")], 422, "a.md"),
        ([("tidy/SKILL.md", b"---\nname: tidy\ndescription: T.\n---\n")] * 2, 422, "twice"),
    ],
)
def test_what_is_no_skill_is_refused_in_the_form_of_the_api_and_leaves_nothing(
    skills: Any, home: Path, files: list[tuple[str, bytes]], status: int, reported: str
) -> None:
    with pytest.raises(anthropic.APIStatusError) as refused:
        skills.create(files=files)
    body = refused.value.body
    assert isinstance(body, dict)
    assert (refused.value.status_code, body["error"]["type"]) == (status, "invalid_request_error")
    assert reported in body["error"]["message"]
    assert list(skills.list()) == []
    installed = home / "data/skills"
    assert not installed.exists() or not [path for path in installed.rglob("*") if path.name == "SKILL.md"]


def test_a_second_skill_of_the_name_and_a_version_of_another_are_refused(skills: Any, write: Write) -> None:
    skills.create(files=library.files_from_dir(write()))
    with pytest.raises(anthropic.ConflictError, match="there is a skill 'tidy'"):
        skills.create(files=library.files_from_dir(write(body="Two.")))
    with pytest.raises(anthropic.BadRequestError, match="calls the skill 'other'"):
        skills.versions.create("skill_tidy", files=library.files_from_dir(write("other")))
    with pytest.raises(anthropic.NotFoundError):
        skills.versions.retrieve("1", skill_id="skill_tidy")
    with pytest.raises(anthropic.NotFoundError):
        skills.retrieve("tidy")


def _upload(client: Any, *files: tuple[str, bytes]) -> tuple[int, Any]:
    """The status and the body of the answer to a skill of these files."""
    answer = client.post("/anthropic/v1/skills", files=[("files[]", file) for file in files])
    return answer.status_code, answer.json()


TIDY = ("tidy/SKILL.md", b"---\nname: tidy\ndescription: Tidies. Use when a test needs a skill.\n---\nDo it.\n")


def test_the_files_of_a_skill_are_30_mb_together_at_most(client: Any) -> None:
    half = bytes(15_000_000)
    status, body = _upload(client, TIDY, ("tidy/a.bin", half), ("tidy/b.bin", half))
    assert (status, body["type"], body["error"]["type"]) == (413, "error", "request_too_large")
    assert "30 MB" in body["error"]["message"]
    assert client.get("/anthropic/v1/skills").json()["data"] == []


@pytest.mark.parametrize(("size", "status"), [(900_000, 200), (1_000_000, 413)])
def test_an_operator_says_how_large_a_skill_may_be_there(home: Path, size: int, status: int) -> None:
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text("[server]\nskills-api-mb = 1\n", "utf-8")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(*TIDY)
        archive.writestr("tidy/large.txt", b"".join(b"%d\n" % number for number in range(size))[:size])
    assert len(packed.getvalue()) < 500_000, "it counts what is unpacked"
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        assert _upload(client, ("tidy.zip", packed.getvalue()))[0] == status
