/** Copies a text, and says so. */
import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";

export function CopyIcon({ value, label }: { value: string; label?: string }) {
  const t = useText(common);
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t.copied : (label ?? t.copy)}>
          <ActionIcon size="sm" aria-label={label ?? t.copy} onClick={copy}>
            {copied ? <IconCheck size={15} /> : <IconCopy size={15} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}
