"""The `openai` SDK, as it is, manages skills here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator

import pytest
from lazily import Lazily

openai = Lazily("openai")

pytestmark = pytest.mark.xdist_group("sdks")  # importing them takes longer than their tests
Pack = Callable[..., bytes]


@pytest.fixture
def sdk(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="any", base_url=f"{address}/openai/v1") as made:
        yield made


def _files(name: str = "tidy", body: str = "One.", **files: str) -> list[tuple[str, bytes]]:
    text = f"---\nname: {name}\ndescription: Tidies up. Use when a test needs a skill.\n---\n{body}\n"
    return [(f"{name}/SKILL.md", text.encode()), *((f"{name}/{path}", content.encode()) for path, content in files.items())]


def test_a_skill_is_created_from_files_listed_retrieved_and_deleted(sdk: openai.OpenAI) -> None:
    made = sdk.skills.create(files=_files(**{"references/a.md": "text"}))
    assert (made.id, made.name, made.default_version, made.latest_version) == ("skill_tidy", "tidy", "1", "1")
    assert sdk.skills.retrieve(made.id) == made
    assert list(sdk.skills.list()) == [made]
    archive = zipfile.ZipFile(io.BytesIO(sdk.skills.content.retrieve(made.id).read()))
    assert archive.namelist() == ["tidy/SKILL.md", "tidy/references/a.md"]
    gone = sdk.skills.delete(made.id)
    assert (gone.id, gone.deleted) == (made.id, True)
    assert list(sdk.skills.list()) == []
    with pytest.raises(openai.NotFoundError):
        sdk.skills.retrieve(made.id)


def test_a_skill_is_created_from_an_archive_and_its_content_can_be_sent_again(sdk: openai.OpenAI, pack: Pack) -> None:
    made = sdk.skills.create(files=("tidy.zip", pack(), "application/zip"))
    content = sdk.skills.content.retrieve(made.id).read()
    same = sdk.skills.versions.create(made.id, files=("tidy.zip", content, "application/zip"))
    assert same.version == "1"


def test_a_version_serves_when_it_is_made_the_default(sdk: openai.OpenAI) -> None:
    skill = sdk.skills.create(files=_files())
    second = sdk.skills.versions.create(skill.id, files=_files(body="Two."))
    assert (second.version, second.name, second.skill_id) == ("2", "tidy", skill.id)
    found = sdk.skills.retrieve(skill.id)
    assert (found.default_version, found.latest_version) == ("1", "2")
    for version in ("2", "1", "2"):
        assert sdk.skills.update(skill.id, default_version=version).default_version == version
    third = sdk.skills.versions.create(skill.id, files=_files(body="Three."), default=True)
    assert sdk.skills.retrieve(skill.id).default_version == third.version == "3"
    content = sdk.skills.versions.content.retrieve("2", skill_id=skill.id).read()
    assert b"Two." in zipfile.ZipFile(io.BytesIO(content)).read("tidy/SKILL.md")
    with pytest.raises(openai.NotFoundError):
        sdk.skills.update(skill.id, default_version="4")


def test_versions_are_listed_in_pages_retrieved_and_deleted(sdk: openai.OpenAI) -> None:
    skill = sdk.skills.create(files=_files())
    for body in ("Two.", "Three."):
        sdk.skills.versions.create(skill.id, files=_files(body=body), default=True)
    assert [one.version for one in sdk.skills.versions.list(skill.id, limit=1)] == ["3", "2", "1"]
    assert [one.version for one in sdk.skills.versions.list(skill.id, limit=1, order="asc")] == ["1", "2", "3"]
    assert sdk.skills.versions.retrieve("2", skill_id=skill.id).version == "2"
    gone = sdk.skills.versions.delete("3", skill_id=skill.id)
    assert (gone.deleted, gone.version) == (True, "3")
    found = sdk.skills.retrieve(skill.id)
    assert (found.default_version, found.latest_version) == ("2", "2")
    assert sdk.skills.versions.create(skill.id, files=_files(body="Four."), default=True).version == "4"


def test_skills_are_listed_in_pages_of_either_order(sdk: openai.OpenAI) -> None:
    for name in ("b", "a", "c"):
        sdk.skills.create(files=_files(name))
    assert [skill.name for skill in sdk.skills.list(limit=1)] == ["c", "a", "b"]
    assert [skill.name for skill in sdk.skills.list(limit=2, order="asc")] == ["b", "a", "c"]


def test_more_power_is_refused_and_agreed_to(sdk: openai.OpenAI) -> None:
    skill = sdk.skills.create(files=_files())
    wider = _files(**{"scripts/run.py": "print(1)\n"})
    with pytest.raises(openai.PermissionDeniedError, match=r"scripts/run\.py") as refused:
        sdk.skills.versions.create(skill.id, files=wider)
    assert refused.value.code == "consent_required"
    consent = "sha256:" + refused.value.message.partition("sha256:")[2][:64]
    assert sdk.skills.versions.create(skill.id, files=wider, extra_query={"consent": consent}).version == "2"


def test_refusals_have_the_form_of_the_api(sdk: openai.OpenAI) -> None:
    sdk.skills.create(files=_files())
    with pytest.raises(openai.ConflictError) as refused:
        sdk.skills.create(files=_files(body="Two."))
    assert (refused.value.code, refused.value.type) == ("skill_exists", "invalid_request_error")
    with pytest.raises(openai.UnprocessableEntityError, match="link"):
        sdk.skills.create(files=("evil.zip", _with_link(), "application/zip"))
    with pytest.raises(openai.BadRequestError, match="limit"):
        sdk.skills.list(limit=0)
    assert [skill.name for skill in sdk.skills.list()] == ["tidy"]


def _with_link() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("evil/SKILL.md", "---\nname: evil\ndescription: Links.\n---\n")
        link = zipfile.ZipInfo("evil/passwords")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return stream.getvalue()
