/** What the model writes, drawn as inert Markdown; not more often than a browser bears while it grows, nor without end. */
import { Button, Text } from "@mantine/core";
import { lazy, memo, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";

import classes from "./Written.module.css";
import { chat } from "./words";

const Markdown = lazy(() => fetched(import("@/parts/Markdown")));
const DRAWN = 40_000; // characters; more would keep the browser busy

export const Written = memo(function Written({ text, live }: { text: string; live: boolean }) {
  const t = useText(chat);
  const format = useFormat();
  const [all, setAll] = useState(false);
  const drawn = text.slice(0, DRAWN);
  const rest = text.slice(DRAWN);
  return (
    <div className={classes.written} aria-busy={live || undefined}>
      <Suspense fallback={<Text style={{ whiteSpace: "pre-wrap" }}>{visible(drawn)}</Text>}>
        <Markdown heading={3}>{drawn}</Markdown>
      </Suspense>
      {rest &&
        (all ? (
          <pre className={classes.rest}>{visible(rest)}</pre>
        ) : (
          <Button size="compact-sm" variant="default" onClick={() => setAll(true)}>
            {t.cut(format.number(rest.length))}
          </Button>
        ))}
    </div>
  );
});
