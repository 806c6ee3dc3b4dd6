/** The server's own sentence below what its code means: it knows the names and numbers. */
import { Text } from "@mantine/core";

import { visible } from "./foreign";
import { WithCode } from "./WithCode";

export function Original({ children }: { children: (string | null | undefined)[] }) {
  const said = children.filter(Boolean).join(" — ");
  if (!said) return null;
  return (
    <Text size="xs" c="dimmed" lang="en" style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
      <bdi>
        <WithCode>{visible(said)}</WithCode>
      </bdi>
    </Text>
  );
}
