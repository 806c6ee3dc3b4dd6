"""The index: the short text about all skills in a system prompt, for a request if there is one; its cost, and rules for use.

The rules for the use of skills are to be pasted into the file in which an agent has its own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from skillyard.errors import InvalidInput
from skillyard.extensions import NO_EXTENSIONS, Extensions
from skillyard.paths import relative_to
from skillyard.prompt.budget import NEVER, BudgetPlan, Continuation, Index, IndexLine, Omission, continue_index, plan_budget
from skillyard.prompt.index_entry import BARE, QUARTERS, WHOLE, IndexEntry, ShownSkill, count_tokens, labels, quarters
from skillyard.prompt.styles import Overview, StyleForm, form_of
from skillyard.search import SearchIndex, named_skills, search_skills
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog

DEFAULT_BUDGET: Final = 2000  # tokens: fifty skills or 8000 characters
WANTED: Final = 12  # of a ranking, so many skills have to be there with a description, whatever was shown before


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index is written: at most `budget` tokens, each description at most `description_chars` characters.

    None is no limit of tokens, and of a description 1024 characters.

    When not all fits, `named` skills (by name or id: those the user spoke of) are served first, then `pinned` ones and those
    whose state that is, then the rest in order. Of a skill whose state is `name-only` only the name is listed. `ranked` means
    that the order is a ranking for a request: then the first keep whole descriptions and the last only names.

    With `previous`, the index that the same conversation was shown before, its lines stay where they are; what is required now
    and was not described is appended, and what has to go for it goes by least use, from the end. `installed` are the ids that
    were added since (absent: those that `previous` does not have). An index of another style is not continued.

    Style `section` shows `roots`, the folders that were scanned, relative to `project_root` where they are below it, and with
    `show_empty` says `Found: (none)` instead of nothing. Style `xml-index` mentions the tool `bash` where the model has a
    `workspace`, and of `run_skill` where it has none.

    A style that is none of the six is looked for among the styles of `extensions`.

    Raises:
        InvalidInput: unknown style, or a negative limit.
        ExtensionFailed: the style is that of an extension, which cannot be imported.
    """

    style: str = "compact"
    budget: int | None = DEFAULT_BUDGET
    description_chars: int | None = None
    named: Collection[str] = ()
    pinned: Collection[str] = ()
    ranked: bool = False
    roots: Sequence[str] = ()
    project_root: str | None = None
    show_empty: bool = False
    workspace: bool = False
    previous: Index | None = None
    installed: Collection[str] | None = None
    extensions: Extensions = NO_EXTENSIONS

    def __post_init__(self) -> None:
        self.form()
        for name in ("budget", "description_chars"):
            if (limit := getattr(self, name)) is not None and limit < 0:
                raise InvalidInput(f"{name} is {limit}", hint=f"give {name} as zero or more, or None for no limit")

    def form(self) -> StyleForm:
        """The form of the style."""
        form = form_of(self.style, self.extensions)
        return form.in_workspace() if self.workspace else form


DEFAULT_OPTIONS: Final = IndexOptions()


def _everything(entries: Iterable[IndexEntry]) -> BudgetPlan:
    return BudgetPlan(tuple((entry, WHOLE) for entry in entries), (), 0)


def build_index(skills: Iterable[Skill], options: IndexOptions = DEFAULT_OPTIONS) -> Index:
    """Write the index of `skills`, in the order given.

    Only skills with status `ok` that models may call are listed; the others are reported in `omitted`. No skills: empty text.
    """
    form = options.form()
    everyone = list(skills)
    offered = [skill for skill in everyone if skill.offered]
    hidden = [_hidden(skill) for skill in everyone if not skill.offered]
    above = options.project_root
    roots = [single_line(relative_to(root, above) if above else root) for root in options.roots]
    overview = Overview(len(offered), tuple(roots) if options.style == "section" else ())
    if not offered:
        text = form.header(overview) if options.show_empty and options.style == "section" else ""
        fits = options.budget is None or count_tokens(text) <= options.budget
        return Index(text if fits else "", count_tokens(text) if fits else 0, omitted=tuple(hidden))
    entries = [
        entry if skill.state != "name-only" else entry.name_only()
        for skill, label in zip(offered, labels(offered), strict=True)
        for entry in (form.entry(ShownSkill(skill, label, options.description_chars)),)
    ]
    pinned = {*options.pinned, *(skill.id for skill in offered if skill.state == "pinned")}
    tiers = _tiers(offered, entries, options.named, pinned)
    return _Builder(form, overview, options, tiers).build(entries, hidden)


def _common_prefix(one: str, two: str) -> int:
    """How many characters two texts have in common from the beginning."""
    if one == two:
        return len(one)
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def append_index(prompt: str, index: Index, *, enabled: bool = True) -> str:
    """`prompt` with the index after it, set off by a `---` line; `prompt` alone when disabled or empty."""
    if not enabled or not index.text:
        return prompt
    return f"{prompt.rstrip()}\n\n---\n\n{index.text}" if prompt.strip() else index.text


@dataclass(frozen=True, slots=True)
class _Builder:
    """One index being written: the form, what its header mentions, how it is written, and the skills by importance."""

    form: StyleForm
    overview: Overview
    options: IndexOptions
    tiers: Sequence[Sequence[IndexEntry]]

    @property
    def turn(self) -> int:
        return self.options.previous.turn + 1 if self.options.previous else 1

    def _required(self, fresh: BudgetPlan) -> tuple[str, ...]:
        """The ids that have to be there: named, pinned, the best of a ranking, else what was installed since."""
        allowances = {entry.id: allowance for entry, allowance in fresh.shown}
        first = [entry.id for tier in self.tiers[:-1] for entry in tier if entry.id in allowances]
        if self.options.ranked:
            best = [entry.id for entry in self.tiers[-1][:WANTED] if allowances.get(entry.id, BARE) != BARE]
        else:
            new = self._new()
            best = [entry.id for entry in self.tiers[-1] if entry.id in new and entry.id in allowances] if new else []
        return (*first, *best)

    def _continuation(self, required: tuple[str, ...]) -> Continuation | None:
        """How the previous index is to be continued, if there is one."""
        previous = self.options.previous
        if previous is None or previous.style != self.options.style or not previous.lines:
            return None
        changed = bool(self._new()) or previous.budget != self.options.budget
        return Continuation(previous.lines, self.turn, required, changed)

    def _new(self) -> Collection[str]:
        previous = self.options.previous
        if previous is None:
            return ()
        if self.options.installed is not None:
            return self.options.installed
        before = {*previous.kept, *previous.shortened, *(omission.id for omission in previous.omitted)}
        return {entry.id for tier in self.tiers for entry in tier} - before

    def build(self, entries: Sequence[IndexEntry], hidden: Sequence[Omission]) -> Index:
        header, footer = self.form.header(self.overview), self.form.footer
        room = None if self.options.budget is None else self.options.budget * QUARTERS - quarters(header) - quarters(footer)
        if self._all_fit(entries, room):
            return self._write(entries, self._lines(_everything(entries), entries, room), hidden)
        tiers, ranked = self.tiers, self.options.ranked
        capped, over = _first(tiers, self.form.most)
        fresh = plan_budget(capped, room, ranked=ranked) if room is not None else _everything(chain(*capped))
        if room is not None and (fresh.left_out or over or room < 0):
            room -= quarters(self.form.more.format(count=len(entries)))
            if room < 0:
                return self._nothing(entries, hidden)
            fresh = plan_budget(capped, room, ranked=ranked)
        lines = self._lines(fresh, entries, room)
        if room is not None and not fresh.left_out and len(lines) < len(entries):  # what was shown before costs more
            lines = self._lines(fresh, entries, room - quarters(self.form.more.format(count=len(entries))))
        return self._write(list(chain(*tiers)), lines, hidden)

    def _all_fit(self, entries: Sequence[IndexEntry], room: int | None) -> bool:
        if self.form.most is not None and len(entries) > self.form.most:
            return False
        if room is None:
            return True
        return sum(entry.bare for entry in entries) <= room and sum(entry.cost(WHOLE) for entry in entries) <= room

    def _lines(self, fresh: BudgetPlan, entries: Sequence[IndexEntry], room: int | None) -> tuple[IndexLine, ...]:
        """The lines of `fresh`, or those of the previous index with as little changed as can be."""
        required = self._required(fresh)
        last = self._continuation(required)
        by_id = {entry.id: entry for entry in entries} if last else {}
        after = continue_index(last, fresh, by_id, room, self.form.most) if last else None
        if after is not None:
            return after
        shown = ((entry.id, allowance) for entry, allowance in fresh.shown)
        return tuple(IndexLine(key, allowance, self.turn if key in required else NEVER) for key, allowance in shown)

    def _write(self, entries: Sequence[IndexEntry], lines: Sequence[IndexLine], hidden: Sequence[Omission]) -> Index:
        by_id = {entry.id: entry for entry in entries}
        shown = {line.id for line in lines}
        missing = [entry for entry in entries if entry.id not in shown]
        parts = [self.form.header(self.overview), *(by_id[line.id].render(line.allowance) for line in lines)]
        # The line about the others ends the list; where a footer closes the list it comes after that.
        parts += [self.form.footer, self.form.more.format(count=len(missing)) if missing else ""]
        text = "".join(parts)
        whole = {line.id for line in lines if by_id[line.id].is_whole(line.allowance)}
        why = self._why_not(len(lines))
        before = self.options.previous or Index("", 0)
        shown_before = {line.id for line in before.lines}
        return Index(
            text=text,
            tokens=count_tokens(text),
            kept=tuple(line.id for line in lines if line.id in whole),
            shortened=tuple(line.id for line in lines if line.id not in whole),
            omitted=(*(Omission(entry.id, why) for entry in missing), *hidden),
            more=len(missing),
            added=tuple(line.id for line in lines if line.id not in shown_before) if before.lines else (),
            dropped=tuple(line.id for line in before.lines if line.id not in shown),
            unchanged=_common_prefix(before.text, text),
            style=self.options.style,
            budget=self.options.budget,
            turn=self.turn,
            lines=tuple(lines),
        )

    def _why_not(self, shown: int) -> str:
        """Why the others are not there: all for the same reason, the one that was met first."""
        if self.form.most is not None and shown >= self.form.most:
            return f"style {self.options.style} lists at most {self.form.most} skills"
        return f"no room within {self.options.budget} tokens"

    def _nothing(self, entries: Sequence[IndexEntry], hidden: Sequence[Omission]) -> Index:
        needed = count_tokens(self.form.header(self.overview) + self.form.footer + self.form.more.format(count=len(entries)))
        reason = f"the words around the list alone need {needed} tokens, the budget is {self.options.budget}"
        return Index("", 0, omitted=(*(Omission(entry.id, reason) for entry in entries), *hidden), more=len(entries))


def _hidden(skill: Skill) -> Omission:
    if skill.status != "ok":
        return Omission(skill.id, f"{skill.status}: {skill.reason}" if skill.reason else skill.status)
    return Omission(skill.id, "its author does not offer it to models")


def _tiers(
    skills: Sequence[Skill], entries: Sequence[IndexEntry], named: Collection[str], pinned: Collection[str]
) -> tuple[list[IndexEntry], list[IndexEntry], list[IndexEntry]]:
    """The entries of named, pinned and other skills, each in the order given; names are compared without regard to case."""
    tiers: tuple[list[IndexEntry], list[IndexEntry], list[IndexEntry]] = ([], [], [])
    if not named and not pinned:
        return [], [], list(entries)
    first = {word.casefold() for word in named}
    second = {word.casefold() for word in pinned}
    for skill, entry in zip(skills, entries, strict=True):
        known_as = {skill.id.casefold(), skill.name.casefold()}
        tiers[0 if known_as & first else 1 if known_as & second else 2].append(entry)
    return tiers


def _first(tiers: Sequence[Sequence[IndexEntry]], most: int | None) -> tuple[list[Sequence[IndexEntry]], list[IndexEntry]]:
    """The first `most` entries of all tiers, and the others."""
    if most is None:
        return list(tiers), []
    kept: list[Sequence[IndexEntry]] = []
    over: list[IndexEntry] = []
    for tier in tiers:
        kept.append(tier[:most])
        over += tier[most:]
        most -= len(kept[-1])
    return kept, over


def entry_costs(skills: Iterable[Skill], index: Index, *, description_chars: int | None = None) -> dict[str, int]:
    """The tokens of each skill that `index` shows, by id, in its order; `skills` and the limit are those it was written of."""
    offered = [skill for skill in skills if skill.offered]
    form = form_of(index.style, Extensions())
    shown = {skill.id: (skill, label) for skill, label in zip(offered, labels(offered), strict=True)}
    costs = {}
    for line in index.lines:
        skill, label = shown[line.id]
        costs[line.id] = count_tokens(form.entry(ShownSkill(skill, label, description_chars)).render(line.allowance))
    return costs


_NO_SECTION: Final = "the configuration says prompt-section = false: models find skills by their tools alone"
_RANKED: Final = 200  # more than a prompt has room for: what comes after these keeps its order


def write_index(
    catalog: SkillCatalog,
    options: IndexOptions = DEFAULT_OPTIONS,
    *,
    request: str | None = None,
    search_index: SearchIndex | None = None,
) -> Index:
    """The index of the skills of `catalog`.

    Without a `request` the order is the catalog's, so that prompt caches hold. With the text of a request the skills it names
    come first, then those that fit it best. `search_index` holds the catalog's usable skills; left out, it is made when it is
    needed. Where the configuration says `prompt-section = false` the text is empty, and every skill is omitted for that reason.
    """
    skills: Sequence[Skill] = catalog.all()
    if not catalog.configuration.prompt_section:
        omitted = tuple(Omission(skill.id, _NO_SECTION) if skill.offered else _hidden(skill) for skill in skills)
        return Index("", 0, omitted=omitted, style=options.style, budget=options.budget)
    named = options.named
    if request:
        index = search_index or SearchIndex(skills)
        skills = _best_first(skills, index, request)
        named = (*named, *named_skills(index, request))
    roots = [root.location for root in catalog.roots if root.scanned]
    return build_index(
        skills, replace(options, named=named, ranked=bool(request), roots=roots, project_root=catalog.project_root)
    )


def _best_first(skills: Sequence[Skill], index: SearchIndex, request: str) -> list[Skill]:
    best = [match.skill for match in search_skills(index, request, limit=_RANKED)]
    first = {skill.id for skill in best}
    return best + [skill for skill in skills if skill.id not in first]


_ENGLISH: Final = """\
## Using skills

A skill is a folder with instructions for one kind of task. Before you act on a request:

1. Look at the list of skills in your instructions, or call `skills_list`, to see whether a skill fits it. Do this before you
   plan, search or write anything.
2. When one fits, load it with `skill` (or `skills_load`, where your instructions name that) and read it to the end.
3. Follow its steps in their order. Do not replace a step by what you would do without it.
4. Where it names `allowed-tools`, use only those tools until its task is done.
5. Read a file of the skill with `read_skill_file` only when a step names it; run its scripts with `run_skill`
   instead of writing your own.
6. When no skill fits, say so in half a sentence and go on without one. Never invent a skill.
"""
_CHINESE: Final = """\
## 使用技能

技能是一个文件夹，其中有针对某一类任务的说明。处理请求之前：

1. 先看说明中的技能列表，或调用 `skills_list`，看是否有合适的技能；在计划、搜索或写任何内容之前就这样做。
2. 有合适的技能时，用 `skill` 加载它（如果说明中写的是 `skills_load`，就用那个），并读完。
3. 严格按照它的步骤依次执行，不要用自己的做法代替其中的步骤。
4. 如果它写明了 `allowed-tools`，完成任务之前只使用这些工具。
5. 只有步骤提到某个文件时，才用 `read_skill_file` 读取；它的脚本用 `run_skill` 运行，不要自己另写。
6. 没有合适的技能时，用半句话说明，然后继续。绝不要编造技能。
"""
_TEXTS: Final = {"en": _ENGLISH, "zh": _CHINESE}


def usage_guidance(language: Literal["en", "zh"] = "en") -> str:
    """The rules, in Markdown, ending in a line feed.

    Raises:
        InvalidInput: there are none in that language.
    """
    if language not in _TEXTS:
        raise InvalidInput(f"there is no guidance in {language!r}", hint=f"one of {', '.join(_TEXTS)}")
    return _TEXTS[language]
