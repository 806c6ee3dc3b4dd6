/** A SKILL.md is a header between two lines of `---`, and the text after it. */
export function body(skillMd: string): string {
  const found = /^\uFEFF?\s*---[ \t]*\r?\n[\s\S]*?\n---[ \t]*(?:\r?\n|$)/.exec(skillMd);
  return found ? skillMd.slice(found[0].length) : skillMd;
}
