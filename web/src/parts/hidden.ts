/** Text of a skill made fit to be looked at: what would be invisible, or would turn the text around, is shown as a mark. */

// C0 and C1 controls but tab and line feed, soft hyphen, zero-width and bidirectional controls, tags, variation selectors.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|[\u{e0000}-\u{e0fff}]/gu;

/** How a hidden character is called: U+202E. */
export function called(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

export interface Piece {
  text: string;
  hidden: boolean;
}

/** The text in pieces; each hidden character is a piece of its own, by its name. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let last = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > last) found.push({ text: text.slice(last, match.index), hidden: false });
    found.push({ text: called(match[0]), hidden: true });
    last = match.index + match[0].length;
  }
  if (last < text.length || found.length === 0) found.push({ text: text.slice(last), hidden: false });
  return found;
}

/** The text on one line without hidden characters, for names. */
export function plain(text: string): string {
  return text.replace(HIDDEN, "\ufffd").replace(/\s+/g, " ").trim();
}
