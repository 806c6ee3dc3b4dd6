/** Text of a skill, drawn inert: no HTML of its own, links without a referrer, pictures only out of the skill. */
import { Anchor, Text } from "@mantine/core";
import type { Element } from "hast";
import { useEffect, useMemo, useRef } from "react";
import ReactMarkdown, { type Components, type UrlTransform } from "react-markdown";
import remarkGfm from "remark-gfm";

import { CodeBlock } from "./CodeBlock";
import { visible } from "./foreign";
import classes from "./Markdown.module.css";
import { undrawn } from "./undrawn";

interface Props {
  children: string;
  /** The address of a picture that the skill holds; without one a picture is its text. */
  picture?: ((path: string) => string) | undefined;
  /** Open another file of the skill. */
  open?: ((path: string) => void) | undefined;
  /** The highest heading that it may have: the first belongs to the page around it. */
  heading?: 2 | 3 | 4;
  /** Called with what of the text is not drawn. */
  hides?: ((parts: readonly string[]) => void) | undefined;
}

const OUTSIDE = /^(https?|mailto):/i;
const DRAWING = /\.svgz?$/i; // could hold scripts, so the server sends it as text
const SCHEME = /^[a-z][a-z0-9+.-]*:|^\/\/|^#/i;

/** Addresses with another scheme than these three lead nowhere. */
const address: UrlTransform = (url) => (OUTSIDE.test(url) || !SCHEME.test(url) || url.startsWith("#") ? url : "");

/** A path inside the skill, as it is written in its Markdown; nothing for one that leaves it. */
function inside(path: string): string | undefined {
  if (!path || SCHEME.test(path) || path.startsWith("/")) return undefined;
  const parts: string[] = [];
  for (const part of path.replace(/[?#].*$/, "").split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return undefined;
    } else if (part && part !== ".") parts.push(part);
  }
  try {
    return decodeURIComponent(parts.join("/")) || undefined;
  } catch {
    return undefined;
  }
}

/** The text of a block of code, and what its author calls the language. */
function codeOf(node: Element | undefined): { text: string; language: string | undefined } {
  const code = node?.children.find((child) => child.type === "element");
  const kinds = code?.properties.className;
  const language = (Array.isArray(kinds) ? kinds : []).map(String).find((kind) => kind.startsWith("language-"));
  const text = code?.children.map((child) => (child.type === "text" ? child.value : "")).join("") ?? "";
  return { text: text.replace(/\n$/, ""), language: language?.slice("language-".length).toLowerCase() };
}

/** Headings as far down as the place wants them. */
function lowered(highest: number): Components {
  const at = (level: number) => `h${Math.min(6, level + highest - 1)}` as "h1";
  return { h1: at(1), h2: at(2), h3: at(3), h4: at(4), h5: at(5) };
}

export default function Markdown({ children, picture, open, heading = 2, hides }: Props) {
  const hidden = useRef<readonly string[]>([]);
  const text = useMemo(() => visible(children), [children]);
  const collect = () => (tree: object) => {
    hidden.current = undrawn(tree as Parameters<typeof undrawn>[0]);
  };
  useEffect(() => {
    hides?.(hidden.current);
  }, [text, hides]);
  const components: Components = {
    a: ({ href, children }) => {
      if (href && OUTSIDE.test(href))
        return (
          <Anchor href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
            {children}
          </Anchor>
        );
      const path = href ? inside(href) : undefined;
      if (path && open)
        return (
          <Anchor component="button" type="button" onClick={() => open(path)} inherit>
            {children}
          </Anchor>
        );
      return <span>{children}</span>;
    },
    img: ({ src, alt }) => {
      const path = typeof src === "string" ? inside(src) : undefined;
      if (path && picture && !DRAWING.test(path)) return <img src={picture(path)} alt={alt ?? ""} loading="lazy" />;
      return (
        <Text component="span" c="dimmed" fs="italic" inherit>
          [{alt ?? path ?? ""}]
        </Text>
      );
    },
    table: ({ children }) => (
      <div className={classes.wide} role="region" tabIndex={0} aria-label="table">
        <table>{children}</table>
      </div>
    ),
    pre: ({ node }) => <CodeBlock {...codeOf(node)} />,
    ...lowered(heading),
    input: ({ checked }) => <input type="checkbox" checked={checked ?? false} readOnly disabled />,
  };
  return (
    <div className={classes.text}>
      <ReactMarkdown remarkPlugins={[remarkGfm, collect]} skipHtml urlTransform={address} components={components}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
