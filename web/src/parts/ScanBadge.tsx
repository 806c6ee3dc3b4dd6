/** The scanner's verdict in one mark: how grave the worst finding is, and how many there are. */
import { Badge, Tooltip } from "@mantine/core";
import { IconShieldCheck, IconShieldExclamation } from "@tabler/icons-react";

import { useText } from "@/i18n";

import { scanned } from "./scanWords";

export const GRAVITY: Readonly<Record<string, string>> = { high: "red", medium: "orange", low: "yellow", info: "gray" };

interface Props {
  /** The gravest severity; nothing where nothing was found. */
  worst: string | null;
  findings: number;
}

export function ScanBadge({ worst, findings }: Props) {
  const t = useText(scanned);
  const Icon = worst === null ? IconShieldCheck : IconShieldExclamation;
  return (
    <Tooltip label={worst === null ? t.clean : t.found(findings)}>
      <Badge color={worst === null ? "gray" : (GRAVITY[worst] ?? "gray")} leftSection={<Icon size={13} />}>
        {worst === null ? t.none : (t.risk[worst] ?? worst)}
      </Badge>
    </Tooltip>
  );
}
