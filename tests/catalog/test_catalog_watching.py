"""A watch tells what changed, and only that."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import watchfiles

from skillyard.catalog import Changes, SkillCatalog


async def after(watching: AsyncIterator[Changes], change: Any) -> Changes:
    """What the watch yields after `change` was made."""
    waiting = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(0.2)
    change()
    return await asyncio.wait_for(waiting, 20)


async def test_added_changed_and_removed_skills_are_reported_one_after_the_other(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "one")
    catalog = SkillCatalog.discover(roots=[skills_root])
    watching = catalog.watch(debounce_ms=100)
    assert (await after(watching, lambda: make_skill(skills_root, "two"))).added == ("config:two",)
    assert (await after(watching, lambda: make_skill(skills_root, "one", description="New."))).changed == ("config:one",)
    assert (await after(watching, (skills_root / "two/SKILL.md").unlink)).removed == ("config:two",)
    assert [skill.id for skill in catalog] == ["config:one"]
    await watching.aclose()  # type: ignore[attr-defined] # an async generator, typed as what a caller needs


async def test_a_change_made_while_nobody_waited_is_reported_next(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "one")
    watching = SkillCatalog.discover(roots=[skills_root]).watch(debounce_ms=100)
    make_skill(skills_root, "two")
    assert (await asyncio.wait_for(anext(watching), 20)).added == ("config:two",)
    await watching.aclose()  # type: ignore[attr-defined] # an async generator, typed as what a caller needs


async def test_a_root_that_appears_is_noticed(tmp_path: Path, make_skill: Any) -> None:
    catalog = SkillCatalog.discover(roots=[tmp_path / "later"])
    watching = catalog.watch(look_again_s=0.2)
    assert (await after(watching, lambda: make_skill(tmp_path / "later", "one"))).added == ("config:one",)
    assert (await after(watching, lambda: make_skill(tmp_path / "later", "two"))).added == ("config:two",)
    await watching.aclose()  # type: ignore[attr-defined] # an async generator, typed as what a caller needs


async def test_without_watches_the_catalog_is_refreshed_at_intervals(
    skills_root: Path, make_skill: Any, monkeypatch: Any
) -> None:
    def refuse(*arguments: object, **options: object) -> AsyncIterator[object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watchfiles, "awatch", refuse)
    watching = SkillCatalog.discover(roots=[skills_root]).watch(look_again_s=0.1)
    assert (await after(watching, lambda: make_skill(skills_root, "one"))).added == ("config:one",)
    await watching.aclose()  # type: ignore[attr-defined] # an async generator, typed as what a caller needs


async def test_a_file_whose_name_cannot_be_decoded_ends_no_watch(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "one")
    watching = SkillCatalog.discover(roots=[skills_root]).watch(look_again_s=0.3)

    def change() -> None:
        os.close(os.open(os.fsencode(skills_root) + b"/one/b\xff", os.O_CREAT | os.O_WRONLY))
        make_skill(skills_root, "two")

    assert (await after(watching, change)).added == ("config:two",)
    await watching.aclose()  # type: ignore[attr-defined] # an async generator, typed as what a caller needs
