/** What the server says as a sentence of the page: its messages are written as programs write them, to follow `error: `. */

const ERRNO = /\[Errno -?\d+\] /g;
const WORD = /^[a-z]+(?=[\s,']|$)/;

/** With a capital where it begins with a plain word, without numbers of the system, and with a full stop where one is wanted. */
export function sentence(text: string, whole = false): string {
  const plain = text.trim().replace(ERRNO, "");
  const begun = WORD.test(plain) ? plain.charAt(0).toUpperCase() + plain.slice(1) : plain;
  return whole && /[\p{L}\p{N}`'")\]]$/u.test(begun) ? `${begun}.` : begun;
}
