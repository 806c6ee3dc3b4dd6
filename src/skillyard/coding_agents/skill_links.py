"""Skills in the folders of coding agents: links or copies that are counted, followed, and never overwritten once edited.

Each entry is written down in `agent-links.json` in Skillyard's own folder: where it is, what it stands for, for which agents,
and the digest of a copy. What is not written down there is somebody else's and is left as it is; so is a copy that was edited.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from skillyard.coding_agents.coding_agent_table import SkillsFolder
from skillyard.errors import ArchiveRefused, InvalidConfiguration, LocalEdits, SkillNotFound
from skillyard.files import locked, move_folder, read_limited, replace_file
from skillyard.packages import copy_tree, tree_digest
from skillyard.paths import real_path
from skillyard.wire import WireForm, wire

_FILE: Final = "agent-links.json"
_VERSION: Final = 1
_LARGEST: Final = 16 * 1024 * 1024

LinkForm = Literal["link", "copy"]
LinkState = Literal["ok", "edited", "missing", "foreign", "withdrawn"]
"""As it was made; a copy that was edited; no longer there; something else in its place; away, as its skill is uninstalled, off,
manual, or not in the set that its project uses."""


@dataclass(frozen=True, slots=True)
class SkillLink(WireForm):
    """One skill in one folder of agents: its `path`, the folder that it links to or copies, and the agents that need it.

    `skill_id` is that of an installed skill, whose changes are followed; `digest` that of a copy when it was made.
    `left_out_by` is the set that its project uses and that does not have it: until that ends it stays withdrawn.
    """

    path: str
    name: str
    source: str
    form: LinkForm
    agents: tuple[str, ...]
    skill_id: str | None = field(default=None, metadata=wire(omit_empty=True))
    digest: str | None = field(default=None, metadata=wire(omit_empty=True))
    withdrawn: bool = False
    left_out_by: str | None = field(default=None, metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class LinkReport(WireForm):
    """The result for one skill in one folder, for which agents; `reason` says why not, or what to do."""

    path: str
    name: str
    agents: tuple[str, ...]
    status: Literal["linked", "copied", "unchanged", "updated", "removed", "kept", "withheld", "refused"]
    reason: str | None = field(default=None, metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class LinkCheck(WireForm):
    """A link and the state it is in."""

    link: SkillLink
    state: LinkState


class SkillLinks:
    """The skills of one home in the folders of agents; `data` is Skillyard's own folder.

    Many processes may change one home at once. Paths are absolute; nothing is followed that leads out of an agent's folder but
    the folder itself, which people link to where they keep such things.
    """

    def __init__(self, data: str | os.PathLike[str]) -> None:
        self.path = Path(data) / _FILE

    def links(self, name: str | None = None) -> tuple[SkillLink, ...]:
        """All links, or those of the skill of that name or id, by path.

        Raises:
            InvalidConfiguration: the list of them cannot be understood.
        """
        found = (link for link in self._load().values() if name is None or name in (link.name, link.skill_id))
        return tuple(sorted(found, key=lambda link: link.path))

    def check(self, name: str | None = None) -> tuple[LinkCheck, ...]:
        """The same with their states; copies are read whole."""
        return tuple(LinkCheck(link, link_state(link)) for link in self.links(name))

    def edited(self, name: str, agent: str | None = None, *, project: str | None = None) -> SkillLink:
        """The copy of a skill that was edited, or the one of an agent; those below the folder `project` come before all others.

        Raises:
            SkillNotFound: there is none.
            LocalEdits: more than one was edited, differently.
        """
        checks = [check for check in self.check(name) if agent is None or agent in check.link.agents]
        copies = _of_project([check.link for check in checks if check.state == "edited"], project)
        if not copies:
            whose = f" of {agent}" if agent else ""
            raise SkillNotFound(
                f"no copy of {name!r} in a folder{whose} was edited", hint="`skillyard link` lists all links and copies"
            )
        if len({tree_digest(link.path) for link in copies}) > 1:
            agents = list(dict.fromkeys(link.agents[0] for link in copies))
            raise LocalEdits(
                f"more than one copy of {name!r} was edited: {', '.join(link.path for link in copies)}",
                hint=f"name the agent whose copy you mean: {', '.join(agents)}; or the folder of its project with --project",
                candidates=agents,
            )
        return copies[0]

    def copy_of(self, name: str, agent: str, *, project: str | None = None) -> SkillLink:
        """The copy or link of a skill that an agent has: the edited one, else that below the folder `project`, else any.

        Raises:
            SkillNotFound: it has none.
            LocalEdits: as `edited`.
        """
        with contextlib.suppress(SkillNotFound):
            return self.edited(name, agent, project=project)
        there = [link for link in self.links(name) if agent in link.agents and not link.withdrawn and os.path.isdir(link.path)]
        if not there:
            raise SkillNotFound(f"{agent} has no copy of {name!r}", hint="`skillyard link` lists all links and copies")
        return _of_project(there, project)[0]

    def add(
        self,
        name: str,
        source: str,
        folders: Sequence[SkillsFolder],
        *,
        skill_id: str | None = None,
        copy: bool = False,
        withheld: str | None = None,
        left_out_by: str | None = None,
    ) -> tuple[LinkReport, ...]:
        """Put the skill in the folder `source` into each of `folders`; what cannot be done is reported, the rest is.

        An entry that is there already gets the agents added that are new, also when its folder is reached by another path
        now. An unedited copy is brought up to date, and stays a copy while other agents have it. `withheld` says why agents
        may not have it now, perhaps for a set (`left_out_by`): it is only noted, and comes when that has ended.
        """
        reports: list[LinkReport] = []
        with self._changing() as links:
            for folder in folders:
                known = _known(links, folder.path, name)
                path = known.path if known else os.path.join(folder.path, name)
                copied = known is not None and known.form == "copy" and not set(known.agents) <= set(folder.agents)
                form: LinkForm = "copy" if copy or folder.copies or copied else "link"
                agents = tuple(dict.fromkeys([*(known.agents if known else ()), *folder.agents]))
                wanted = SkillLink(path, name, source, form, agents, skill_id)
                if withheld and (known is None or known.withdrawn):
                    links[path] = replace(wanted, withdrawn=True, left_out_by=left_out_by)
                    reports.append(LinkReport(path, name, folder.agents, "withheld", withheld))
                    continue
                made, report = _tried(wanted, lambda wanted=wanted, known=known: _put(wanted, known))  # type: ignore[misc]
                if made is not None:
                    links[path] = made
                reports.append(replace(report, agents=folder.agents))
        return tuple(reports)

    def remove(
        self, name: str, agents: Iterable[str] | None = None, *, below: str | None = None, force: bool = False
    ) -> tuple[LinkReport, ...]:
        """Take the skill away from these agents, or all; an entry goes when no agent is left that wanted it.

        `below` is the folder of a project, of which alone links are taken. An edited copy is kept without `force`.

        Raises:
            SkillNotFound: it stands nowhere.
        """
        leaving = None if agents is None else set(agents)
        reports: list[LinkReport] = []
        with self._changing() as links:
            for link in [one for one in links.values() if name in (one.name, one.skill_id)]:
                if below is not None and not link.path.startswith(os.path.join(below, "")):
                    continue
                going = tuple(agent for agent in link.agents if leaving is None or agent in leaving)
                left = tuple(agent for agent in link.agents if agent not in going)
                if not going:
                    continue
                if left:
                    links[link.path] = replace(link, agents=left)
                    reason = f"still wanted there by {', '.join(left)}"
                    reports.append(LinkReport(link.path, link.name, going, "kept", reason))
                    continue
                gone, report = _tried(link, lambda link=link: _take(link, force=force))  # type: ignore[misc]
                if gone is not None:
                    del links[link.path]
                    if os.path.lexists(link.path):
                        report = replace(report, reason="only the record: something else is there now, and stays")
                reports.append(report)
        if not reports:
            raise SkillNotFound(
                f"{name!r} is in no such folder of an agent",
                hint="`skillyard link` lists all links and copies",
                candidates=[],
            )
        return tuple(reports)

    def follow(self, is_away: Callable[[SkillLink], bool | None], *, forget: bool = False) -> tuple[LinkReport, ...]:
        """Bring entries to what their skill is now, or withdraw those whose skill `is_away`; None leaves one as it is.

        A skill is away when it was uninstalled, is off or manual: links and unedited copies go, and come back when it does,
        unless `forget`. Returned is only what could not be done.
        """
        if not self.path.exists() or all(is_away(link) is None for link in self._load().values()):
            return ()
        problems: list[LinkReport] = []
        with self._changing() as links:
            for link in list(links.values()):
                if (away := is_away(link)) is None or (link.left_out_by and not away):
                    continue
                if away:
                    gone = forget or link_state(link) == "missing"  # by hand, perhaps with its whole project
                    done, report = _tried(link, lambda link=link: _take(link, force=False))  # type: ignore[misc]
                    after = None if gone else replace(link, withdrawn=True)
                else:
                    done, report = _tried(link, lambda link=link: _refresh(link))  # type: ignore[misc]
                    after = done
                if done is None:
                    problems.append(report)
                elif after is None:
                    del links[link.path]
                else:
                    links[link.path] = after
        return tuple(problems)

    def follow_set(
        self, folders: Iterable[str], name: str | None, is_chosen: Callable[[SkillLink], bool]
    ) -> tuple[LinkReport, ...]:
        """Take what is not in the set `name` out of these folders of agents, and free what sets have left out and this has.

        What is freed comes back when it is followed; `name` is None where no set is in use. Returned is the result of each
        entry that left, or could not.
        """
        real = {real_path(folder) for folder in folders}
        reports: list[LinkReport] = []
        if not self.path.exists():
            return ()
        with self._changing() as links:
            for link in [one for one in links.values() if real_path(os.path.dirname(one.path)) in real]:
                left_out_by = None if name is None or is_chosen(link) else name
                if left_out_by is None or link.withdrawn:
                    links[link.path] = replace(link, left_out_by=left_out_by)
                elif link_state(link) != "missing":  # what was removed by hand stays so
                    done, report = _tried(link, lambda link=link: _take(link, force=False))  # type: ignore[misc]
                    if done is not None:
                        links[link.path] = replace(link, withdrawn=True, left_out_by=left_out_by)
                        report = replace(report, reason=f"it is not in the set {name!r}")
                    reports.append(report)
        return tuple(reports)

    def accept(self, link: SkillLink) -> None:
        """Take a copy as it is now for unedited, since its content was made a version; and other copies with that content."""
        with self._changing() as links:
            digest = tree_digest(link.path)
            for one in [one for one in links.values() if one.name == link.name and link_state(one) == "edited"]:
                if tree_digest(one.path) == digest:
                    links[one.path] = replace(one, digest=digest)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, SkillLink]]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.path):
            links = self._load()
            before = dict(links)
            try:
                yield links
            finally:
                if links != before:
                    shape = {"version": _VERSION, "links": [links[path].to_dict() for path in sorted(links)]}
                    replace_file(self.path, json.dumps(shape, indent=2, ensure_ascii=False).encode() + b"\n")

    def _load(self) -> dict[str, SkillLink]:
        try:
            data = json.loads(read_limited(self.path, _LARGEST))
            if data["version"] != _VERSION:
                raise ValueError("a newer Skillyard wrote it")
            return {one["path"]: _read(one) for one in data["links"]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidConfiguration(
                f"{self.path} cannot be understood: {error}",
                hint="move it away: Skillyard does not replace other files in folders of agents",
                file=str(self.path),
            ) from None


def _known(links: dict[str, SkillLink], folder: str, name: str) -> SkillLink | None:
    """The entry of that name in a folder, or in one that is the same folder by links."""
    exact, real = links.get(os.path.join(folder, name)), real_path(folder)
    namesakes = (one for one in links.values() if os.path.basename(one.path) == name)
    return exact or next((one for one in namesakes if real_path(os.path.dirname(one.path)) == real), None)


def _of_project(links: list[SkillLink], project: str | None) -> list[SkillLink]:
    """Those below the folder of a project, or all when none is."""
    return [link for link in links if project and link.path.startswith(os.path.join(project, ""))] or links


def link_state(link: SkillLink) -> LinkState:
    """How a link is now; that it leads nowhere is for who removed its skill to say."""
    if link.withdrawn:
        return "withdrawn"
    if not os.path.lexists(link.path):
        return "missing"
    if link.form == "link":
        return "ok" if os.path.islink(link.path) and os.readlink(link.path) == link.source else "foreign"  # as written
    if os.path.islink(link.path) or not os.path.isdir(link.path):
        return "foreign"
    try:
        return "ok" if tree_digest(link.path) == link.digest else "edited"
    except OSError:
        return "foreign"


def _read(values: dict[str, object]) -> SkillLink:
    agents, form = values["agents"], values["form"]
    texts = [values[name] for name in ("path", "name", "source")]
    if not isinstance(agents, list) or form not in ("link", "copy") or not all(isinstance(text, str) for text in texts):
        raise ValueError("an entry is not one of a link")
    path, name, source = map(str, texts)
    skill_id, digest = (str(values[key]) if values.get(key) else None for key in ("skill_id", "digest"))
    made: LinkForm = "copy" if form == "copy" else "link"
    by = str(values["left_out_by"]) if values.get("left_out_by") else None
    return SkillLink(path, name, source, made, tuple(map(str, agents)), skill_id, digest, bool(values.get("withdrawn")), by)


_Done = tuple[SkillLink, Literal["linked", "copied", "unchanged", "updated", "removed"]]


class _NotChangedError(Exception):
    """Why an entry is not touched."""


class _AlreadyThereError(Exception):
    """The skill is there without us, as itself or by a link of somebody else."""


_EDITED_THERE: Final = "it was edited there; `skillyard adopt` makes a version of it, `skillyard unlink --force` removes it"
_OF_OTHERS: Final = "another skill or file is there that Skillyard did not create; move it away first"


def _tried(link: SkillLink, change: Callable[[], _Done]) -> tuple[SkillLink | None, LinkReport]:
    """What a change gave, and its report; one that is refused, or that the system does not allow, gives no link."""
    try:
        made, status = change()
        return made, LinkReport(link.path, link.name, link.agents, status)
    except _AlreadyThereError:
        return None, LinkReport(link.path, link.name, link.agents, "unchanged", "it is there without Skillyard, and stays so")
    except _NotChangedError as error:
        reason = str(error)
    except ArchiveRefused as error:
        reason = error.sentence
    except OSError as error:
        reason = f"it cannot be written: {error.strerror or error}"
    return None, LinkReport(link.path, link.name, link.agents, "refused", reason)


def _put(wanted: SkillLink, known: SkillLink | None) -> _Done:
    """Make the entry, or bring the one that is there up to date."""
    if known is not None and (known.source, known.form) == (wanted.source, wanted.form):
        away = known.withdrawn or link_state(known) == "missing"
        return _refresh(replace(known, agents=wanted.agents, withdrawn=away, left_out_by=None))
    if known is not None and link_state(known) == "ok":  # a link becomes a copy, or stands for another skill of this name
        _take(known, force=False)
    elif os.path.lexists(wanted.path):
        if known is None and real_path(wanted.path) == real_path(wanted.source):
            raise _AlreadyThereError
        raise _NotChangedError(_EDITED_THERE if known is not None else _OF_OTHERS)
    return _make(wanted), "copied" if wanted.form == "copy" else "linked"


def _refresh(link: SkillLink) -> _Done:
    """Bring a copy to what its skill is now; a withdrawn entry comes back, one that somebody removed does not."""
    state = "missing" if link.withdrawn and not os.path.lexists(link.path) else link_state(replace(link, withdrawn=False))
    back = replace(link, withdrawn=False)
    if state == "missing":
        return (_make(back), "linked" if link.form == "link" else "copied") if link.withdrawn else (link, "unchanged")
    if state == "edited":
        raise _NotChangedError(
            "the copy was edited and is left as it is; `skillyard diff --in` shows how, `skillyard adopt` makes a version of it"
        )
    if state == "foreign":
        raise _NotChangedError("something else is there now that Skillyard did not create")
    if link.form == "link" or tree_digest(link.source) == link.digest:
        return back, "unchanged"
    return _make(back), "updated"


def _make(link: SkillLink) -> SkillLink:
    """Write the entry; a copy that is there is replaced in one step."""
    folder = os.path.dirname(link.path)
    os.makedirs(folder, exist_ok=True)
    if link.form == "link":
        os.symlink(link.source, link.path)  # fails when something is there
        return link
    hidden = tempfile.mkdtemp(prefix=".skillyard-", dir=folder)  # no agent reads half a skill
    try:
        staging = copy_tree(link.source, hidden)
        digest = tree_digest(staging)
        move_folder(staging, link.path)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return replace(link, digest=digest)


def _take(link: SkillLink, *, force: bool) -> _Done:
    """Remove the entry from the disk, as far as it is still ours."""
    state = link_state(link)
    if state == "edited" and not force:
        raise _NotChangedError("the copy was edited and is left as it is; `--force` removes it with the edits")
    if state == "ok" and link.form == "link":
        os.unlink(link.path)
    elif state in ("ok", "edited"):
        aside = os.path.join(os.path.dirname(link.path), f".{link.name}.{os.urandom(4).hex()}")
        os.rename(link.path, aside)
        shutil.rmtree(aside, ignore_errors=True)
    return link, "removed"
