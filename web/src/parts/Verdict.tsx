/** The answers to a question whether a skill may be used: once, for longer, or not, and why not. */
import { Button, Group, Menu, Text, TextInput } from "@mantine/core";
import { IconCheck, IconChevronDown, IconX } from "@tabler/icons-react";
import { useState } from "react";

import { useText } from "@/i18n";

import { ErrorState } from "./ErrorState";
import { verdict } from "./verdictWords";

export type Decision = "once" | "session" | "workspace" | "reject";

interface Props {
  /** The answers that hold for longer, each with what it says and for how long. */
  longer: readonly { decision: "session" | "workspace"; label: string; why: string }[];
  /** Who reads the reason of a refusal. */
  reason: string;
  busy: boolean;
  error: unknown;
  answer: (decision: Decision, reason: string) => void;
}

export function Verdict({ longer, reason, busy, error, answer }: Props) {
  const t = useText(verdict);
  const [why, setWhy] = useState("");
  const say = (decision: Decision) => answer(decision, why.trim());
  return (
    <>
      {error !== null && error !== undefined && <ErrorState error={error} />}
      <Group gap="xs" align="flex-end">
        <Button.Group>
          <Button leftSection={<IconCheck size={16} />} loading={busy} onClick={() => say("once")}>
            {t.once}
          </Button>
          <Menu position="bottom-end" width={300}>
            <Menu.Target>
              <Button px={8} aria-label={t.more} disabled={busy}>
                <IconChevronDown size={16} />
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              {longer.map(({ decision, label, why: holds }) => (
                <Menu.Item key={decision} onClick={() => say(decision)}>
                  <Text size="sm" fw={560}>
                    {label}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {holds}
                  </Text>
                </Menu.Item>
              ))}
            </Menu.Dropdown>
          </Menu>
        </Button.Group>
        <Group gap="xs" flex="1 1 380px" miw={0} wrap="nowrap">
          <TextInput
            flex={1}
            miw={0}
            aria-label={reason}
            placeholder={reason}
            value={why}
            maxLength={500}
            onChange={({ currentTarget }) => setWhy(currentTarget.value)}
            onKeyDown={({ key, nativeEvent }) => key === "Enter" && !nativeEvent.isComposing && why.trim() && say("reject")}
          />
          <Button variant="light" color="red" flex="none" leftSection={<IconX size={16} />} disabled={busy} onClick={() => say("reject")}>
            {t.reject}
          </Button>
        </Group>
      </Group>
    </>
  );
}
