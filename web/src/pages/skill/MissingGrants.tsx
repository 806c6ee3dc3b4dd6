/** What a skill needs and was not granted, or this machine does not have, before it is run without it. */
import { Alert, Code, Group, Stack, Text } from "@mantine/core";
import { IconPackageOff } from "@tabler/icons-react";

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

function Names({ label, needs }: { label: string; needs: readonly Need[] }) {
  return (
    <Group gap={6}>
      <Text size="sm">{label}</Text>
      {needs.map(({ kind, name }) => (
        <Code key={kind + name} style={{ overflowWrap: "anywhere", whiteSpace: "normal" }}>
          {visible(needName(kind, name))}
        </Code>
      ))}
    </Group>
  );
}

/** How a grant names it: `pypdf`, `npm:docx`, `program:qpdf`. */
export const needName = (kind: Need["kind"], name: string): string => (kind === "packages" ? name : `${kind === "npm" ? "npm" : "program"}:${name}`);
