/** What a run came to: drawn as what it is, or as it was written. */
import { Group, SegmentedControl } from "@mantine/core";
import { useState } from "react";

import type { RunDetail } from "@/api/runs";
import { isOver } from "@/api/runStates";
import { useText } from "@/i18n";
import { CopyIcon } from "@/parts/CopyIcon";
import { Section } from "@/parts/Section";
import { Json, Value } from "@/parts/Value";

import { runs } from "../runs/words";

export function Output({ run }: { run: RunDetail }) {
  const t = useText(runs);
  const [source, setSource] = useState(false);
  if (run.output === null || run.output === undefined) return <Section title={t.output} empty={isOver(run.state) ? t.noOutput : t.waitOutput} />;
  return (
    <Section
      title={t.output}
      actions={
        <Group gap="xs">
          <SegmentedControl
            size="xs"
            value={source ? "source" : "drawn"}
            onChange={(value) => setSource(value === "source")}
            data={[
              { value: "drawn", label: t.drawn },
              { value: "source", label: t.source },
            ]}
          />
          <CopyIcon value={typeof run.output === "string" ? run.output : JSON.stringify(run.output, null, 2)} />
        </Group>
      }
    >
      {source ? <Json value={run.output} /> : <Value value={run.output} />}
    </Section>
  );
}
