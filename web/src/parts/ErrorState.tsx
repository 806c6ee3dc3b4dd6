/** What went wrong, and the way out that the server names. */
import { Alert, Button, Code, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlugConnectedX } from "@tabler/icons-react";

import { asProblem } from "@/api/problem";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { common } from "@/i18n/common";

import { Original } from "./Original";
import { sentence } from "./sentence";
import { WithCode } from "./WithCode";

interface Props {
  error: unknown;
  again?: (() => unknown) | undefined;
}

export function ErrorState({ error, again }: Props) {
  const t = useText(common);
  const problem = asProblem(error);
  const gone = problem.code === "unreachable";
  const own = problem.code === "page_failed";
  const meant = useMeaning("errors")(problem.code);
  const title = gone ? t.unreachable : own ? t.unexpected : (meant?.title ?? sentence(problem.message));
  const hint = gone ? t.unreachableHint : own ? t.unexpectedHint : (meant?.fix ?? (problem.hint && sentence(problem.hint, true)));
  const Icon = gone ? IconPlugConnectedX : IconAlertTriangle;
  return (
    <Alert variant="light" color={gone ? "gray" : "red"} icon={<Icon size={20} />} title={<WithCode>{title}</WithCode>} role="alert" styles={{ title: { overflowWrap: "anywhere" } }}>
      <Stack gap="sm" align="flex-start">
        {hint && (
          <Text size="sm">
            <WithCode>{hint}</WithCode>
          </Text>
        )}
        {meant && <Original>{[problem.message, problem.hint]}</Original>}
        {own && <Code block>{problem.message}</Code>}
        <Group gap="sm">
          {again && problem.status !== 404 && (
            <Button size="xs" variant="default" onClick={() => again()}>
              {t.again}
            </Button>
          )}
          {!gone && (
            <Text size="xs" c="dimmed">
              {t.code}: <Code>{problem.code}</Code>
            </Text>
          )}
        </Group>
      </Stack>
    </Alert>
  );
}
