/** Files in their folders, as a tree that is walked with the arrow keys (the tree pattern of the ARIA practices). */
import { IconChevronRight, IconFile, IconFileCode, IconFileText, IconFolder } from "@tabler/icons-react";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";

import { useFormat } from "@/i18n/format";

import classes from "./FileTree.module.css";
import { visible } from "./foreign";

const STEEP = 6; // folders deep: further in, steps are small

export interface TreeFile {
  name: string;
  size: number;
  type: "markdown" | "script" | "template" | "other";
}

/** What kind of file a name means. */
export const fileType = (name: string): TreeFile["type"] =>
  /\.(md|markdown|txt)$/i.test(name) ? "markdown" : /\.(py|sh|js|ts|rb|pl|mjs|bash)$/i.test(name) ? "script" : "other";

interface Folder {
  path: string;
  folders: Map<string, Folder>;
  files: TreeFile[];
}

interface Row {
  path: string;
  label: string;
  depth: number;
  file?: TreeFile;
  open?: boolean;
}

interface Props {
  label: string;
  files: readonly TreeFile[];
  chosen: string;
  choose: (path: string) => void;
  /** Every folder open, whatever was closed: while something is looked for. */
  expanded?: boolean;
}

export function FileTree({ label, files, chosen, choose, expanded = false }: Props) {
  const format = useFormat();
  const root = useMemo(() => grown(files), [files]);
  const [closed, setClosed] = useState<ReadonlySet<string>>(() => new Set(files.length > 60 ? [...root.folders.values()].map(({ path }) => path) : []));
  const place = useRef<HTMLUListElement>(null);
  const rows = flat(root, (path) => expanded || chosen.startsWith(`${path}/`) || !closed.has(path));
  const [focus, setFocus] = useState(chosen);
  const at = Math.max(0, rows.findIndex(({ path }) => path === focus));

  const turn = (path: string, open: boolean) => {
    setClosed((before) => {
      const after = new Set(before);
      if (open) after.delete(path);
      else after.add(path);
      return after;
    });
  };
  const go = (index: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
    if (!row) return;
    setFocus(row.path);
    place.current?.querySelectorAll<HTMLElement>("[role=treeitem]")[rows.indexOf(row)]?.focus();
  };
  const press = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row) return;
    const steps: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (row.file || row.open ? go(at + 1) : turn(row.path, true)),
      ArrowLeft: () => (row.open ? turn(row.path, false) : go(rows.findIndex(({ path }) => path === row.path.slice(0, row.path.lastIndexOf("/"))))),
      Enter: () => (row.file ? choose(row.path) : turn(row.path, !row.open)),
      " ": () => (row.file ? choose(row.path) : turn(row.path, !row.open)),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  };
  return (
    <ul ref={place} role="tree" aria-label={label} className={classes.tree} onKeyDown={press}>
      {rows.map((row, index) => (
        // eslint-disable-next-line jsx-a11y/click-events-have-key-events -- the tree handles the keys
        <li
          key={row.path}
          role="treeitem"
          aria-level={row.depth + 1}
          aria-selected={row.path === chosen}
          {...(row.file ? {} : { "aria-expanded": row.open })}
          tabIndex={index === at ? 0 : -1}
          className={classes.row}
          style={{ paddingLeft: 8 + Math.min(row.depth, STEEP) * 16 + Math.max(0, row.depth - STEEP) * 6 }}
          title={visible(row.label)}
          onClick={() => {
            setFocus(row.path);
            if (row.file) choose(row.path);
            else turn(row.path, !row.open);
          }}
        >
          <Mark row={row} />
          <span className={classes.name}>{visible(row.label)}</span>
          {row.file && row.file.size > 0 && <span className={classes.size}>{format.bytes(row.file.size)}</span>}
        </li>
      ))}
    </ul>
  );
}

function Mark({ row }: { row: Row }) {
  if (!row.file)
    return (
      <>
        <IconChevronRight size={14} className={classes.turn} data-open={row.open} aria-hidden />
        <IconFolder size={16} stroke={1.6} aria-hidden />
      </>
    );
  const Icon = row.file.type === "script" ? IconFileCode : row.file.type === "markdown" ? IconFileText : IconFile;
  return <Icon size={16} stroke={1.6} className={classes.file} aria-hidden />;
}

function grown(files: readonly TreeFile[]): Folder {
  const root: Folder = { path: "", folders: new Map(), files: [] };
  for (const file of files) {
    const parts = file.name.split("/");
    let folder = root;
    parts.slice(0, -1).forEach((part, depth) => {
      const inner = folder.folders.get(part) ?? { path: parts.slice(0, depth + 1).join("/"), folders: new Map(), files: [] };
      folder.folders.set(part, inner);
      folder = inner;
    });
    folder.files.push(file);
  }
  return root;
}

function flat(folder: Folder, isOpen: (path: string) => boolean, depth = 0): Row[] {
  const files = folder.files.map((file) => ({ path: file.name, label: file.name.split("/").pop() ?? file.name, depth, file }));
  const folders = [...folder.folders].flatMap(([label, inner]) => {
    const open = isOpen(inner.path);
    return [{ path: inner.path, label, depth, open }, ...(open ? flat(inner, isOpen, depth + 1) : [])];
  });
  return depth === 0 ? [...files, ...folders] : [...folders, ...files];
}
