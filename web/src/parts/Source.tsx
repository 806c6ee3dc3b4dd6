/** A text with line numbers, of which only what is on the screen is drawn. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";

import colours from "./colours.module.css";
import { lines, type Word } from "./highlight";
import classes from "./Source.module.css";
import { pieces } from "./hidden";

const LINE = 21;
const LONGEST = 2_000; // characters of one line that are drawn

interface Props {
  text: string;
  /** Its name says which language it is. */
  path: string;
  label: string;
  /** A line to go to and to mark. */
  line?: number | undefined;
}

export default function Source({ text, path, label, line }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const words = useMemo(() => lines(text.endsWith("\n") ? text.slice(0, -1) : text, path), [text, path]);
  const rows = useVirtualizer({ count: words.length, getScrollElement: () => place.current, estimateSize: () => LINE, overscan: 20 });
  useEffect(() => {
    if (line) rows.scrollToIndex(line - 1, { align: "center" });
  }, [line, rows, words]);
  const digits = String(words.length).length;
  const widest = useMemo(() => Math.max(...words.map((row) => Math.min(LONGEST, row.reduce((sum, { text }) => sum + width(text), 0)))), [words]);
  return (
    <div ref={place} className={`${classes.source} ${colours.words}`} role="region" aria-label={label} tabIndex={0}>
      <div className={classes.all} style={{ height: rows.getTotalSize(), minWidth: `calc(${widest + digits + 4}ch + 24px)` }}>
        {rows.getVirtualItems().map(({ index, start }) => (
          <div key={index} className={classes.line} data-marked={index + 1 === line} style={{ transform: `translateY(${start}px)`, height: LINE }}>
            <span className={classes.number} style={{ width: `${digits + 1}ch` }} aria-hidden>
              {index + 1}
            </span>
            <code className={classes.code}>{drawn(words[index] ?? [])}</code>
          </div>
        ))}
      </div>
    </div>
  );
}

/** Columns that a text takes: characters of Chinese, Japanese and Korean are two wide. */
function width(text: string): number {
  let columns = text.length;
  for (const character of text) if (character > "\u1100") columns += 1;
  return columns;
}

function drawn(words: readonly Word[]) {
  let left = LONGEST;
  return words.map(({ text, kind }, index) => {
    const cut = text.slice(0, Math.max(0, left));
    left -= text.length;
    return (
      <span key={index} className={kind}>
        {pieces(cut).map((piece, at) =>
          piece.hidden ? (
            <span key={at} className={classes.hidden}>
              {piece.text}
            </span>
          ) : (
            piece.text
          ),
        )}
        {left < 0 && cut.length < text.length && "…"}
      </span>
    );
  });
}
