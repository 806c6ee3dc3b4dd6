/** Why a run did not succeed. */
import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import type { RunDetail } from "@/api/runs";
import { visible } from "@/parts/foreign";

export function Fault({ run: { error, state } }: { run: RunDetail }) {
  if (!error) return null;
  return (
    <Alert color={state === "failed" ? "red" : "gray"} icon={<IconAlertTriangle size={20} />} title={<code>{error.code}</code>} role="alert">
      <Text size="sm" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
        <bdi>{visible(error.message ?? "")}</bdi>
      </Text>
    </Alert>
  );
}
