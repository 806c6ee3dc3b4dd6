/** What a model reads of a Markdown text and a person does not see when it is drawn: HTML, comments, titles, unused references. */

interface Node {
  type: string;
  value?: string;
  title?: string | null;
  identifier?: string;
  url?: string;
  children?: Node[];
}

const REFERENCES: ReadonlySet<string> = new Set(["linkReference", "imageReference", "footnoteReference"]);
const HARMLESS = /^<\/?(?:br|p|div|span|b|i|em|strong|sub|sup|kbd|details|summary|center|hr|ul|ol|li|table|thead|tbody|tr|td|th)\s*\/?>$/i;

/** The parts of a tree of mdast that are not drawn, in their order; tags without any content of their own are left out. */
export function undrawn(tree: Node): string[] {
  const used = new Set<string>();
  walk(tree, ({ type, identifier }) => {
    if (REFERENCES.has(type) && identifier) used.add(`${type === "footnoteReference" ? "^" : ""}${identifier}`);
  });
  const found: string[] = [];
  walk(tree, (node) => {
    const { type, value = "", title, identifier = "", url = "" } = node;
    if (type === "html" && !HARMLESS.test(value.trim())) found.push(value.trim());
    else if (type === "definition" && !used.has(identifier)) found.push(`[${identifier}]: ${url}${title ? ` "${title}"` : ""}`);
    else if (type === "footnoteDefinition" && !used.has(`^${identifier}`)) found.push(`[^${identifier}]: ${textOf(node)}`);
    else if (title && (type === "link" || type === "image" || type === "definition")) found.push(`"${title}"`);
  });
  return found;
}

function walk(node: Node, look: (node: Node) => void): void {
  look(node);
  for (const child of node.children ?? []) walk(child, look);
}

const textOf = ({ value = "", children = [] }: Node): string => value + children.map(textOf).join("");
