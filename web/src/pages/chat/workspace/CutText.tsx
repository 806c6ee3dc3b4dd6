/** A text of somebody else, in full when it is short; else its beginning and its end, with a button for what is between. */
import { UnstyledButton } from "@mantine/core";
import { useState } from "react";

import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";

import { cutMiddle } from "./commands";
import classes from "./CutText.module.css";
import { workspace } from "./words";

export function CutText({ text, most }: { text: string; most: number }) {
  const t = useText(workspace);
  const format = useFormat();
  const [all, setAll] = useState(false);
  const { head, hidden, tail } = cutMiddle(text, all ? Infinity : most);
  return (
    <>
      {visible(head)}
      {hidden > 0 && (
        <UnstyledButton className={classes.between ?? ""} onClick={() => setAll(true)}>
          {t.showAll(format.number(hidden))}
        </UnstyledButton>
      )}
      {visible(tail)}
    </>
  );
}
