/** What a skill may do, and which of it is new against another version. */
import { Badge, Code, Group, List, Text } from "@mantine/core";

import type { Powers } from "@/api/skills";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { safety } from "@/pages/skill/safetyWords";

import { FactList } from "./FactList";
import { visible } from "./foreign";

const KINDS = ["scripts", "hosts", "environment", "packages", "needs", "secrets", "servers", "skills", "events", "fetches", "tools", "hidden"] as const;
const SHOWN = 12;

interface Props {
  powers: Powers;
  before?: Powers | null | undefined;
  /** For narrow places. */
  stacked?: boolean;
}

export function PowerList({ powers, before, stacked = false }: Props) {
  const t = useText(safety);
  const format = useFormat();
  const idle = KINDS.every((kind) => !powers[kind].length);
  return (
    <>
      {idle && <Text size="sm">{t.harmless}</Text>}
      <FactList
        stacked={stacked}
        facts={[
          ...KINDS.map((kind) => {
            const held = powers[kind];
            return [t.kinds[kind], held.length > 0 && <Held key={kind} held={held} known={before ? before[kind] : undefined} />] as const;
          }),
          [t.files, !idle && (t.filesystem[powers.filesystem] ?? powers.filesystem)],
          [t.limits, !idle && t.limit(format.duration(powers.timeout_ms), format.bytes(powers.memory_mb * 1024 ** 2))],
        ]}
      />
    </>
  );
}

function Held({ held, known }: { held: readonly string[]; known: readonly string[] | undefined }) {
  const t = useText(safety);
  const isNew = (one: string) => known !== undefined && !known.includes(one);
  const sorted = [...held].sort((one, two) => Number(isNew(two)) - Number(isNew(one)));
  return (
    <List listStyleType="none" spacing={3} mt={2}>
      {sorted.slice(0, SHOWN).map((one) => (
        <List.Item key={one}>
          <Group gap={6} wrap="nowrap" component="span">
            <Code style={{ overflowWrap: "anywhere" }}>{visible(one)}</Code>
            {isNew(one) && (
              <Badge color="orange" size="xs">
                {t.added}
              </Badge>
            )}
          </Group>
        </List.Item>
      ))}
      {held.length > SHOWN && <List.Item>{t.more(held.length - SHOWN)}</List.Item>}
    </List>
  );
}
