/** A command that can be copied with one press. */
import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

import classes from "./CopyLine.module.css";

export function CopyLine({ text, label }: { text: string; label?: string }) {
  const t = useText(common);
  return (
    <div className={classes.line}>
      <pre tabIndex={0} aria-label={label}>
        <code>{text}</code>
      </pre>
      <CopyButton value={text} timeout={1500}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? t.copied : t.copy}>
            <ActionIcon aria-label={copied ? t.copied : t.copy} onClick={copy} size="sm" className={classes.button}>
              {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </div>
  );
}
