/** A folder that was dropped or chosen becomes one archive, in the browser. */
import { Zip, ZipDeflate, ZipPassThrough } from "fflate";

export interface FolderFile {
  /** With the name of the folder in front: pdf/SKILL.md. */
  path: string;
  file: File;
}

/** As much as the server takes, in bytes. */
export const LARGEST = 50 * 1024 * 1024;
const MOST = 10_000;

/** Folders that no skill needs: history and what can be made again. */
const SKIPPED = new Set([".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"]);
const SKIPPED_FILES = new Set([".DS_Store", "Thumbs.db", "desktop.ini"]);
const PACKED = /\.(png|jpe?g|gif|webp|zip|gz|tgz|mp[34]|woff2?|docx|xlsx|pptx|pdf)$/i;

/** Whether a path is left out of the archive. */
export function isSkipped(path: string): boolean {
  const parts = path.split("/");
  return parts.some((part) => SKIPPED.has(part)) || SKIPPED_FILES.has(parts.at(-1) ?? "");
}

export type FolderProblem = "empty" | "large" | "many" | "no-skill";

export class FolderRefused extends Error {
  constructor(readonly problem: FolderProblem) {
    super(problem);
  }
}

/** What can be said before anything is packed. */
export function problemOf(files: readonly FolderFile[]): FolderProblem | undefined {
  if (files.length === 0) return "empty";
  if (files.length > MOST) return "many";
  if (files.reduce((sum, { file }) => sum + file.size, 0) > LARGEST * 4) return "large";
  return files.some(({ path }) => /(^|\/)skill\.md$/i.test(path)) ? undefined : "no-skill";
}

/** The archive of the files, packed one after the other so that the page stays alive; `report` is called with how many are in it. */
export async function zipped(files: readonly FolderFile[], report: (done: number) => void = () => undefined): Promise<File> {
  const kept = files.filter(({ path }) => !isSkipped(path));
  const problem = problemOf(kept);
  if (problem) throw new FolderRefused(problem);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let failed: Error | undefined;
  const archive = new Zip((error, part) => {
    if (error) failed = error;
    else parts.push(part);
  });
  let done = 0;
  for (const { path, file } of kept) {
    const entry = PACKED.test(path) ? new ZipPassThrough(path) : new ZipDeflate(path, { level: 6 });
    entry.mtime = file.lastModified >= 315_619_200_000 ? file.lastModified : 315_619_200_000; // ZIP knows no time before 1980
    archive.add(entry);
    entry.push(new Uint8Array(await bytes(file)), true);
    if (failed) throw failed;
    report(++done);
  }
  archive.end();
  const name = (kept[0]?.path.split("/")[0] ?? "skill") || "skill";
  const packed = new File(parts, `${name}.zip`, { type: "application/zip" });
  if (packed.size > LARGEST) throw new FolderRefused("large");
  return packed;
}

function bytes(file: File): Promise<ArrayBuffer> {
  return file.arrayBuffer();
}

/** The files of an input with `webkitdirectory`. */
export function chosenFiles(list: FileList | readonly File[]): FolderFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** What was dropped: one archive, or the files of folders. */
export async function droppedFiles(transfer: DataTransfer): Promise<{ archive: File } | { files: FolderFile[] }> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null); // before any await: the list is emptied
  const single = transfer.files.length === 1 ? transfer.files[0] : undefined;
  if (single && entries.every((entry) => entry.isFile) && isArchive(single.name)) return { archive: single };
  if (entries.length === 0) return { files: chosenFiles(transfer.files) };
  const files: FolderFile[] = [];
  for (const entry of entries) await walk(entry, files);
  return { files };
}

export function isArchive(name: string): boolean {
  return /\.(zip|skill|tar\.gz|tgz|tar)$/i.test(name);
}

async function walk(entry: FileSystemEntry, files: FolderFile[]): Promise<void> {
  const path = entry.fullPath.replace(/^\/+/, "");
  if (isSkipped(path) || files.length > MOST) return;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    files.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject)); // a hundred at a time
    if (some.length === 0) return;
    for (const inner of some) await walk(inner, files);
  }
}
