/** What a skill needs and was not granted, or this machine does not have, before it is run without it. */
import { Alert, Button, Code, Group, Stack, Text } from "@mantine/core";
import { IconPackageOff } from "@tabler/icons-react";
import { useState } from "react";

import type { Needs } from "@/api/skills";
import { useText } from "@/i18n";
import { CopyLine } from "@/parts/CopyLine";
import { visible } from "@/parts/foreign";

import { running } from "./runWords";

type Need = Needs["items"][number];

export function MissingGrants({ needs }: { needs: Needs }) {
  const t = useText(running);
  const proposed = needs.items.filter(({ state }) => state === "proposed");
  const absent = needs.items.filter(({ state }) => state === "missing");
  if (proposed.length + absent.length === 0) return null;
  return (
    <Alert color="yellow" icon={<IconPackageOff size={20} />} title={proposed.length > 0 ? t.missing.title : t.missing.absentTitle}>
      <Stack gap={8}>
        {proposed.length > 0 && <Names label={t.missing.proposed} needs={proposed} />}
        {needs.command && (
          <>
            <Text size="sm">{t.missing.command}</Text>
            <CopyLine text={visible(needs.command)} label={t.missing.command} />
          </>
        )}
        {absent.length > 0 && <Names label={t.missing.absent} needs={absent} />}
      </Stack>
    </Alert>
  );
}

const AT_FIRST = 8;

function Names({ label, needs }: { label: string; needs: readonly Need[] }) {
  const t = useText(running);
  const [whole, setWhole] = useState(false);
  const shown = whole || needs.length <= AT_FIRST + 1 ? needs : needs.slice(0, AT_FIRST);
  return (
    <Group gap={6}>
      <Text size="sm">{label}</Text>
      {shown.map(({ kind, name }) => (
        <Code key={kind + name} style={{ overflowWrap: "anywhere", whiteSpace: "normal" }}>
          {visible(needName(kind, name))}
        </Code>
      ))}
      {shown.length < needs.length && (
        <Button size="compact-xs" variant="subtle" onClick={() => setWhole(true)}>
          {t.missing.more(needs.length - shown.length)}
        </Button>
      )}
    </Group>
  );
}

/** How a grant names it: `pypdf`, `npm:docx`, `program:qpdf`. */
export const needName = (kind: Need["kind"], name: string): string => (kind === "packages" ? name : `${kind === "npm" ? "npm" : "program"}:${name}`);
