/** Why a run did not succeed. */
import { Alert, Code, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import type { RunDetail } from "@/api/runs";
import { useMeaning } from "@/i18n/chinese";
import { visible } from "@/parts/foreign";

export function Fault({ run: { error, state } }: { run: RunDetail }) {
  const meaning = useMeaning("errors");
  if (!error) return null;
  const meant = meaning(error.code);
  return (
    <Alert color={state === "failed" ? "red" : "gray"} icon={<IconAlertTriangle size={20} />} title={meant?.title ?? <code>{error.code}</code>} role="alert">
      <Stack gap="xs" align="flex-start">
        {meant && <Text size="sm">{meant.fix}</Text>}
        <Text size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
          <bdi>{visible(error.message ?? "")}</bdi>
        </Text>
        {meant && <Code>{error.code}</Code>}
      </Stack>
    </Alert>
  );
}
