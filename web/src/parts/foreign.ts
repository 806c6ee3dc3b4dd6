/** Text that somebody else wrote, made safe to read: what would paint, move or hide letters is taken out or shown. */
import { pieces } from "./hidden";

// Escape sequences of terminals (ECMA-48): colours and cursor moves, titles and links, and single ones.
const ESCAPES = /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][\s\S]*?(?:\u0007|\u001B\\|\u009C|$)|\u001B[ -/]*[0-~]?/g;
const CONTROLS = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/g;

/** Without terminal escapes and controls; a line that was written over shows its last state. */
export function plain(text: string): string {
  return text
    .replace(ESCAPES, "")
    .replace(/\r\n/g, "\n")
    .replace(/^.*\r(?=.)/gm, "")
    .replace(/\r/g, "")
    .replace(CONTROLS, "");
}

/** The same, with characters that turn or hide the ones beside them written as their numbers. */
export function visible(text: string): string {
  return pieces(plain(text))
    .map((piece) => (piece.hidden ? `⟨${piece.text}⟩` : piece.text))
    .join("");
}
