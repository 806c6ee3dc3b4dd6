/** What of two values is alike and what is not, leaf by leaf. */

/** One line of a comparison; a side that lacks it is undefined. */
export interface Pair {
  name: string;
  one: string | undefined;
  other: string | undefined;
}

/** More leaves of one value are not told apart: the rest is compared as a whole. */
const MOST = 300;

/** A value as one line of text. */
const written = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Each leaf of a value by its path, as `rows[0].name`; the name of the value itself is empty. */
export function leaves(value: unknown, most = MOST): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (inner: unknown, path: string): void => {
    const parts: [string, unknown][] = Array.isArray(inner)
      ? inner.map((item, index) => [`${path}[${index}]`, item])
      : typeof inner === "object" && inner !== null
        ? Object.entries(inner).map(([key, item]) => [path ? `${path}.${key}` : key, item])
        : [];
    if (parts.length === 0 || found.size + parts.length > most) found.set(path, written(inner));
    else for (const [name, item] of parts) walk(item, name);
  };
  if (value !== null && value !== undefined) walk(value, "");
  return found;
}

/** The leaves of two values beside each other, in the order of the first. */
export function pairs(one: unknown, other: unknown): Pair[] {
  const [first, second] = [leaves(one), leaves(other)];
  return [...new Set([...first.keys(), ...second.keys()])].map((name) => ({ name, one: first.get(name), other: second.get(name) }));
}

export const differs = ({ one, other }: Pair): boolean => one !== other;
