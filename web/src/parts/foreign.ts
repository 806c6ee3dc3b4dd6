/** Text that somebody else wrote, made safe to read: what would paint, move or hide letters is taken out or shown. */

// Escape sequences of terminals (ECMA-48): colours and cursor moves, titles and links, and single ones.
 
const ESCAPES = /(?:\u001B\[|\u009B)[0-?]*[ -/]*[@-~]|\u001B[\]PX^_][\s\S]*?(?:\u0007|\u001B\\|\u009C|$)|\u001B[ -/]*[0-~]?/g;
 
const CONTROLS = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/g;
const HIDDEN = /[\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2069\uFEFF]|[\u{E0000}-\u{E007F}]/gu;

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
  return plain(text).replace(HIDDEN, (found) => `⟨U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
