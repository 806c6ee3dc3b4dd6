"""Scan one skill: each file is read once and checked by every rule that fits it, in a helper process unless it is small.

The rules read untrusted text. A file that is given up is a finding of its own, so that nothing passes for clean that
could not be scanned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Final

from skillyard.document import parse_document
from skillyard.errors import HelperFailed, WorkMemoryExceeded, WorkTimedOut
from skillyard.offload import report_progress
from skillyard.scanner.containers import DEEPEST, MOST_UNPACKED, Contents, unpack
from skillyard.scanner.dangerous_commands import (
    OBFUSCATION_PATTERNS,
    PERSISTENCE_PATTERNS,
    decoded_payloads,
    find_credentials,
    find_dangerous_calls,
    find_resource_abuse,
    find_secrets,
    program_in,
    written_out,
)
from skillyard.scanner.declared_permissions import ObservedBehavior, compare_declarations, find_privileges, variables_in
from skillyard.scanner.finding import LINK, NOT_TEXT, SEVERITIES, Finding, Report, Skipped, WatchReport, lower_severity
from skillyard.scanner.injection import (
    decode_tag_characters,
    find_hidden_text,
    find_injection,
    find_padding,
    in_plain_letters,
    misleading_name,
    step_of,
)
from skillyard.scanner.matching import find
from skillyard.scanner.names import WELL_KNOWN, imitated_names, text_sample
from skillyard.scanner.network_use import (
    UNPARSED_PYTHON_PATTERNS,
    find_contacts,
    find_downloads,
    find_flows,
    hosts_in,
    network_use,
)
from skillyard.scanner.prerequisites import find_prerequisites, look_alike_packages
from skillyard.scanner.python_calls import check_python_calls, command_lines, first_network_call, first_program_start
from skillyard.scanner.python_flow import Flow, PythonFile, parse_python
from skillyard.scanner.scanner_rules import RULES, Suppression, apply_suppressions, claim_on
from skillyard.scanner.source_texts import (
    LARGEST_TEXT,
    TOO_DEEP,
    TOO_LARGE,
    Hit,
    Language,
    ScannedFile,
    SourceText,
    commands_acted_on,
    decoded,
    evidence_of,
    inline_programs,
    language_of,
    read_files,
    readings,
    split,
    told_to_run,
    without_comments,
)
from skillyard.scanner.watch_effects import finding_of

_CODE: Final = ("python", "shell", "javascript", "powershell")
CROSS_FILE_STEP: Final = "all files together"
"""The last step of a scan, in which values are followed from file to file."""
_COMMANDS: Final[tuple[Callable[[SourceText], Iterator[Hit]], ...]] = (
    find_credentials, find_downloads, partial(find, patterns=PERSISTENCE_PATTERNS), find_resource_abuse,
    find_dangerous_calls, partial(find, patterns=OBFUSCATION_PATTERNS), find_flows, find_contacts,
    find_privileges, find_prerequisites, look_alike_packages,
)  # fmt: skip


def scan_files(
    folder: str, given_up: Collection[str] = (), reason: str = "", known: Mapping[str, str] | None = None
) -> tuple[Report, str]:
    """Look for harm in the files of a folder, but for those that were `given_up`: they are a finding each, for this `reason`.

    `known` are the names that it must not imitate, by default those that are well known. The result has the name in SKILL.md, else the folder's. Each step is reported to the process that watches a helper process:
    the path of a file, and `CROSS_FILE_STEP` at the end.
    """
    scan = _Scan(folder, known=known or WELL_KNOWN)
    for file in read_files(folder, scan.skipped):
        report_progress(file.name)
        if file.name in given_up:
            scan.give_up(file.name, reason)
        else:
            try:
                scan.scan_file(file)
            except Exception as error:
                scan.give_up(file.name, f"it broke the scanner: {type(error).__name__}")
    scan.note_unread()
    name = Path(folder).name
    report_progress(CROSS_FILE_STEP)
    if CROSS_FILE_STEP in given_up:
        scan.give_up("SKILL.md", f"{CROSS_FILE_STEP}: {reason}")
    else:
        try:
            name = scan.finish(name)
        except Exception as error:
            scan.give_up("SKILL.md", f"{CROSS_FILE_STEP}: it broke the scanner: {type(error).__name__}")
    return scan.report(), name


@dataclass
class _Scan:
    """The state while the files of one skill are read."""

    folder: str
    known: Mapping[str, str] = field(default_factory=dict)
    """The names that it must not imitate, and whose they are."""
    findings: dict[tuple[str, str, int], Finding] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    facts: ObservedBehavior = field(default_factory=ObservedBehavior)
    python: list[PythonFile] = field(default_factory=list)
    skill_md: SourceText | None = None
    run_as: Mapping[str, Language] = field(default_factory=dict)
    """The languages in which SKILL.md tells to run files, by their last names."""
    takes_keys: list[tuple[SourceText, int]] = field(default_factory=list)
    sends: list[tuple[SourceText, int]] = field(default_factory=list)
    """Where texts tell to read keys, and to send something to an address."""
    unpacked: int = 0
    """Bytes that were taken out of archives."""

    def scan_file(self, file: ScannedFile, depth: int = 0) -> None:
        """Scan one file, or note why not; `depth` archives around it."""
        self.files.append(file.name)
        if hit := misleading_name(file.name):
            self.note(SourceText(file.name, file.name, "text", "data"), hit)
        texts = readings(file.name, file.data)
        if not texts or b"\0" in file.data:
            if hit := program_in(file.name, file.data):
                self.note(SourceText(file.name, "", "text", "data"), hit)
            self._scan_inside(file, depth, is_text=bool(texts))
        if not texts:
            return
        text = texts[0]
        language = language_of(file.name, text)
        whole = SourceText(file.name, text, "text", "script" if language in _CODE else "data")
        if not file.whole:
            self.skipped.append(Skipped(file.name, f"everything after its first {LARGEST_TEXT} bytes"))
            if language in (*_CODE, "markdown"):
                self.note(whole, Hit("not-all-read", 0, f"only the first {LARGEST_TEXT} bytes of the file were scanned"))
        if file.name.lower() == "skill.md" and not depth:
            self.skill_md = whole
            self.run_as = told_to_run(text)
        self.note(whole, *find_hidden_text(whole), *find_padding(whole), *find_secrets(whole))
        run_as = self.run_as.get(file.name.rpartition("/")[2])
        for source in (source for one in texts for source in split(file.name, one, run_as)):
            self._scan_source(source)
        if (commands := commands_acted_on(file.name, text)) is not None:
            self._note_grave(commands)
        self._scan_encoded(whole)

    def _scan_inside(self, file: ScannedFile, depth: int, *, is_text: bool) -> None:
        """Scan what is in an archive, an office document or the text of a picture."""
        about = SourceText(file.name, "", "text", "data")
        contents = unpack(file.name, file.data)
        if contents is None:
            if not is_text:
                self.skipped.append(Skipped(file.name, NOT_TEXT))
            return
        if not file.whole:
            contents.unread.append("it is too large to be opened")
            contents.hides = True
        self.note(about, *_about(contents))
        if contents.unread:
            self.skipped.append(Skipped(file.name, contents.unread[0]))
        for member in contents.members:
            self.unpacked += len(member.data)
            if depth == DEEPEST or self.unpacked > MOST_UNPACKED:
                self.skipped.append(Skipped(member.name, "too many archives deep, or too much in them"))
                self.note(about, Hit("not-all-read", 0, "an archive holds more than is scanned", member.name))
                return
            if member.prose:
                self.files.append(member.name)
                text = decoded(member.data) or ""
                source = SourceText(member.name, text, "text", "prose", origin="inside the file")
                self.note(
                    source,
                    *find_hidden_text(source),
                    *find_secrets(source),
                    *find_prerequisites(source),
                    *find_injection(source),
                )
            else:
                self.scan_file(ScannedFile(member.name, member.data, member.whole), depth + 1)

    def _scan_source(self, source: SourceText) -> None:
        code = without_comments(source)
        if source.language != "html":
            for find_commands in _COMMANDS:
                self.note(source, *find_commands(code))
        self.note(source, *find_injection(source))
        for steps, sends in ((self.takes_keys, False), (self.sends, True)):
            if (at := step_of(source, sends=sends)) is not None:
                steps.append((source, at))
        if source.role in ("prose", "comment") and (readable := in_plain_letters(source)) is not None:
            self.note(readable, *find_injection(readable), *find_prerequisites(readable))
        if (source.language != "python" or self._parse(source)) and source.role == "script":
            self._observe(source, code)
        if (plain := written_out(code)) is not None:  # its lines are those of the code: the graver of two findings stays
            self._note_grave(plain)
        for program in inline_programs(source):
            self._scan_source(program)

    def _note_grave(self, source: SourceText, finders: Sequence[Callable[[SourceText], Iterator[Hit]]] = _COMMANDS) -> None:
        """Keep what commands in a text that was made from another do, where it is more than a flaw."""
        hits = (hit for find_commands in finders for hit in find_commands(source))
        self.note(source, *(hit for hit in hits if RULES[hit.rule].severity in ("high", "medium")))

    def _parse(self, source: SourceText) -> bool:
        """Read Python as a tree; an example by itself, a script together with the others when all are read."""
        file = parse_python(source)
        if file is None:
            unparsed = [] if source.origin or source.role != "script" else [Hit("not-parsed", 0)]
            self.note(source, *unparsed, *find(source, UNPARSED_PYTHON_PATTERNS))
            return False
        if source.role == "script":
            self.python.append(file)
        else:
            self.note(source, *check_python_calls(file, Flow((file,))))
        for command, line in command_lines(file):
            shell = SourceText(
                source.file, command, "shell", source.role, fixed_line=source.position(source.offset_of(line))[0]
            )
            self._note_grave(shell, (find_downloads, find_flows, find_prerequisites))
        return True

    def _observe(self, source: SourceText, code: SourceText) -> None:
        """Record what a script does, to be compared with what SKILL.md declares."""
        self.facts.note_acts(source, code.text)
        if source.language == "shell":
            self.facts.commands.append((source, 0))
        if (at := network_use(code)) is not None:
            self.facts.network.append((source, at))
        self.facts.hosts += [(source, offset, host) for host, offset in hosts_in(code.text)]
        self.facts.variables += [(source, offset, name) for name, offset in variables_in(code.text).items()]

    def _scan_encoded(self, whole: SourceText) -> None:
        """Scan what is written in encoded text or in invisible letters."""
        hidden = [
            SourceText(
                whole.file, text, "markdown", "prose", origin="in invisible letters", fixed_line=whole.position(offset)[0]
            )
            for offset, text in decode_tag_characters(whole.text)
        ]
        for source in [*decoded_payloads(whole), *hidden]:
            hits = [hit for find_commands in _COMMANDS for hit in find_commands(source)] + list(find_injection(source))
            grave = [hit for hit in hits if RULES[hit.rule].severity in ("high", "medium")]
            if grave and source.origin == "in encoded text":
                title = grave[0].message or RULES[grave[0].rule].title
                evidence = f"says: {evidence_of(source.text)}"
                self.note(source, Hit("encoded-payload", 0, f"encoded text contains: {title}", evidence))
            self.note(source, *grave)

    def give_up(self, name: str, reason: str) -> None:
        """Report a file that could not be scanned as a finding: it must not pass for a clean one."""
        if name not in self.files:
            self.files.append(name)
        self.skipped.append(Skipped(name, reason))
        self.note(SourceText(name, "", "text", "data"), Hit("not-scanned", 0, reason, "not read"))

    def note_unread(self) -> None:
        """A skill that is too large to be read gets a finding about it, which nobody overlooks; so does a link out of it."""
        for one in self.skipped:
            if one.reason == LINK and (target := self._outside(one.file)):
                beside = int(not target.startswith(("/", "~")))  # a file of the same collection
                self.note(
                    SourceText(one.file, "", "text", "data"), Hit("link-outside", 0, "", f"leads to {target}", relief=beside)
                )
            if one.reason.startswith((TOO_LARGE, TOO_DEEP)):
                self.note(
                    SourceText(one.file, "", "text", "data"), Hit("not-all-read", 0, f"from here on: {one.reason}", "not read")
                )

    def _outside(self, name: str) -> str:
        """What a link says when it leads out of the folder; empty when it stays inside."""
        try:
            target = os.readlink(f"{self.folder}/{name}")  # noqa: PTH115 # as it is written
        except OSError:
            return ""
        at = os.path.realpath(f"{self.folder}/{name}")
        return "" if f"{at}/".startswith(f"{os.path.realpath(self.folder)}/") else target

    def finish(self, folder_name: str) -> str:
        """What only shows when all files are read; the name SKILL.md gives, else the folder's."""
        flow = Flow(self.python)
        for file in self.python:
            hits = list(check_python_calls(file, flow))
            self.note(file.source, *hits)
            self.facts.sent_keys += [(file.source, hit.offset) for hit in hits if hit.rule == "key-in-body"]
            if call := first_network_call(file):
                self.facts.network.append((file.source, file.offset(call)))
            if call := first_program_start(file):
                self.facts.commands.append((file.source, file.offset(call)))
        for source, at in self.sends:
            if other := next((one for one, _ in self.takes_keys if one.file != source.file), None):
                self.note(
                    source, Hit("send-away", at, f"a text tells to send something, and {other.file} to read keys", relief=1)
                )
        if self.skill_md is None:
            return folder_name
        document = parse_document(self.skill_md.text.encode("utf-8", "surrogatepass"), directory_name=folder_name)
        for source, hit in compare_declarations(document, self.skill_md, self.facts):
            self.note(source, hit)
        for name in (document.metadata.name, folder_name):
            self.note(self.skill_md, *imitated_names(self.skill_md, name, self.known))
        return document.metadata.name or folder_name

    def report(self) -> Report:
        """All findings, the most severe first, before anything is suppressed."""
        findings = sorted(
            self.findings.values(), key=lambda one: (SEVERITIES.index(one.severity), one.file, one.line, one.rule)
        )
        sample = text_sample(self.skill_md.text) if self.skill_md else frozenset()
        return Report(self.folder, tuple(findings), tuple(self.files), tuple(self.skipped), sample=sample)

    def note(self, source: SourceText, *hits: Hit) -> None:
        """Keep hits as findings, one for each rule and line: the gravest."""
        for hit in hits:
            finding = _finding(source, hit)
            key = (finding.rule, finding.file, finding.line)
            earlier = self.findings.get(key)
            if earlier is None or SEVERITIES.index(finding.severity) < SEVERITIES.index(earlier.severity):
                self.findings[key] = finding


def _about(contents: Contents) -> Iterator[Hit]:
    """What is to be said of an archive as a whole."""
    if contents.sealed:
        yield Hit("sealed-archive", 0, evidence=contents.sealed)
    if contents.macros:
        yield Hit("office-macros", 0, evidence="it has macros")
    if contents.hides:
        yield Hit("not-all-read", 0, "an archive holds more than is scanned", contents.unread[0])


def _finding(source: SourceText, hit: Hit) -> Finding:
    rule = RULES[hit.rule]
    line, column = source.position(hit.offset)
    shown = source.role == "example" or (source.role != "script" and rule.subject not in ("prompt injection", "hidden text"))
    message = hit.message or rule.title
    return Finding(
        rule=rule.id,
        severity=lower_severity((shown and rule.in_text) or rule.severity, hit.relief),
        message=evidence_of(f"{message} ({source.origin})" if source.origin else message),
        why=rule.why,
        file=source.file,
        line=line,
        column=column,
        evidence=evidence_of(hit.evidence or source.line_at(hit.offset)),
        fix=rule.fix,
        claimed=claim_on(rule.id, source.lines_near(hit.offset)),
    )


_MOST_FINDINGS: Final = 1_000
_SMALL: Final = 32 * 1024
"""Up to so many bytes a skill is scanned in this process: the rules take a few microseconds for each byte."""
_MOST_ENTRIES: Final = 64
_FILE_SECONDS: Final = 20.0
_ALL_SECONDS: Final = 60.0
_MEMORY_MB: Final = 1024
_ATTEMPTS: Final = 4


def scan_skill(
    directory: str | os.PathLike[str],
    *,
    suppressions: Sequence[Suppression] = (),
    name: str | None = None,
    today: date | None = None,
    watched: WatchReport | None = None,
    known: Mapping[str, str] | None = None,
) -> Report:
    """Look for harm in the skill in `directory`: advice, nothing is run and nothing is changed.

    Files are read up to 1 MiB each and 8 MiB of text together, scripts first; links are not followed. What was left out is in
    `skipped`. A file that takes over 20 seconds is left out with the finding `not-scanned`, and so is what is left of a skill
    after the third such file or a minute. `suppressions` name what the operator lets pass until a day, by the skill's `name`,
    which is that of SKILL.md when it is not given; `today` is that of the clock. What `watched` says that it did is among the
    findings. `known` are names that are not to be imitated beside those that are well known, in small letters, and whose they are.

    Raises:
        OSError: the folder itself cannot be read.
        HelpersBusy, HelperFailed: no helper process is free, or none can be started; one that breaks over the skill is a finding.
    """
    folder = Path(directory)
    os.scandir(folder).close()
    whole = str(folder.resolve())
    names = {**known, **WELL_KNOWN} if known else None
    report, own_name = scan_files(whole, known=names) if _is_small(whole) else _scanned_in_helper(whole, names)
    effects = [finding_of(effect) for effect in watched.effects] if watched else []
    found = sorted((*report.findings, *effects), key=lambda one: SEVERITIES.index(one.severity)) if effects else report.findings
    judged = apply_suppressions(
        found[:_MOST_FINDINGS],
        suppressions,
        folder=str(folder),
        skill=name or own_name,
        today=today or datetime.now(UTC).date(),
    )
    skipped = report.skipped
    if (omitted := len(found) - _MOST_FINDINGS) > 0:
        skipped = (*skipped, Skipped(".", f"{omitted} findings of less weight are not reported"))
    return Report(str(directory), tuple(judged), report.files, skipped, watched, report.sample)


def _is_small(folder: str) -> bool:
    """Whether the files of a folder are few and small; it is read no further than that needs."""
    waiting, size, entries = [folder], 0, 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as scanned:
                for entry in scanned:
                    entries += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_size
                    if size > _SMALL or entries > _MOST_ENTRIES:
                        return False
        except OSError:
            return False  # the scan itself reports why
    return True


def _scanned_in_helper(folder: str, known: Mapping[str, str] | None) -> tuple[Report, str]:
    """The scan in a helper process; each file at which it had to be ended is left out of the next attempt."""
    from skillyard.offload import WorkLimits, run_in_helper

    reason = f"it could not be scanned within {_FILE_SECONDS:g} s and {_MEMORY_MB} MiB"
    limits = WorkLimits(seconds=_ALL_SECONDS, step_seconds=_FILE_SECONDS, memory_mb=_MEMORY_MB)
    given_up: list[str] = []
    for _ in range(_ATTEMPTS - 1):
        try:
            return run_in_helper(scan_files, folder, tuple(given_up), reason, known, subject="a scan", limits=limits)
        except (HelperFailed, WorkTimedOut, WorkMemoryExceeded) as error:
            if "at" not in error.details:
                raise  # there is no helper: it has nothing to do with the skill
            at = error.details["at"]
            if not isinstance(at, str) or at in given_up or error.details.get("limit_seconds") == _ALL_SECONDS:
                break
            given_up.append(at)
    scan = _Scan(folder)
    for name in (*given_up, "SKILL.md"):
        scan.give_up(name, f"the skill could not be scanned in time, or in {_MEMORY_MB} MiB")
    return scan.report(), Path(folder).name
