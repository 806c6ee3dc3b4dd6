/** A person decides whether a client of MCP may sign in: who it says it is, where the answer goes, and what it may do. */
import { Alert, Badge, Button, Checkbox, Code, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Scope, sessionQuery } from "@/api/keys";
import { type Authorization, authorizationQuery, decide, goBack, requestIn } from "@/api/oauth";
import { arrival } from "@/app/arrival";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";

import { authorize } from "./words";

const REQUEST = requestIn(arrival);

export function AuthorizePage() {
  const t = useText(authorize);
  const query = useQuery(authorizationQuery(REQUEST));
  return (
    <Page title={t.title} lead={t.lead} width="text">
      <Loaded query={query} skeleton={<Skeleton h={260} aria-hidden />}>
        {(asked) => (asked.problem ? <Faulty asked={asked} /> : <Decision asked={asked} />)}
      </Loaded>
    </Page>
  );
}

/** A request that nobody can allow; the client learns of it when somebody presses the button, and not before. */
function Faulty({ asked }: { asked: Authorization }) {
  const t = useText(authorize);
  const back = asked.redirect_to;
  return (
    <Stack gap="md" align="flex-start">
      <Alert icon={<IconAlertTriangle />} color="red" title={t.faulty} w="100%">
        {visible(asked.problem ?? "")}
      </Alert>
      <Facts asked={asked} />
      {back && <Button variant="default" onClick={() => goBack(back)}>{t.back}</Button>}
    </Stack>
  );
}

function Decision({ asked }: { asked: Authorization }) {
  const t = useText(authorize);
  const [scopes, setScopes] = useState<Scope[]>(asked.scopes);
  const deciding = useMutation({
    mutationFn: (allow: boolean) => decide(REQUEST, allow, allow ? scopes : []),
    onSuccess: ({ redirect_to }) => goBack(redirect_to),
  });
  if (deciding.isSuccess) return <Text>{t.answered}</Text>;
  return (
    <Stack gap="lg">
      <Facts asked={asked} />
      <Checkbox.Group label={t.may} value={scopes} onChange={setScopes}>
        <Stack gap="xs" mt="xs">
          {asked.scopes.map((scope) => (
            <Checkbox key={scope} value={scope} label={t.scopeWhy[scope as keyof typeof t.scopeWhy]} description={scope} />
          ))}
        </Stack>
      </Checkbox.Group>
      <Text size="sm" c="dimmed">
        {t.howLong}
      </Text>
      {deciding.error && <ErrorState error={deciding.error} />}
      <Group>
        <Button onClick={() => deciding.mutate(true)} disabled={!scopes.length} loading={deciding.isPending && deciding.variables}>
          {t.allow}
        </Button>
        <Button variant="default" onClick={() => deciding.mutate(false)} loading={deciding.isPending && !deciding.variables}>
          {t.refuse}
        </Button>
      </Group>
    </Stack>
  );
}

function Facts({ asked }: { asked: Authorization }) {
  const t = useText(authorize);
  const session = useQuery(sessionQuery());
  return (
    <FactList
      facts={[
        [
          t.program,
          <Stack key="program" gap={2}>
            <Text fw={560} style={{ overflowWrap: "anywhere" }}>
              <bdi>{visible(asked.client_name)}</bdi>
            </Text>
            <Text size="sm" c="dimmed">
              {asked.client_host ? t.proven(visible(asked.client_host)) : t.unproven}
            </Text>
          </Stack>,
        ],
        [
          t.goesTo,
          <Group key="address" gap="xs">
            <Code style={{ overflowWrap: "anywhere" }}>{visible(asked.redirect_uri)}</Code>
            <Badge color={asked.local ? "gray" : "yellow"}>{asked.local ? t.local : t.elsewhere}</Badge>
          </Group>,
        ],
        [t.inTheNameOf, <bdi key="name">{visible(session.data?.caller ?? "")}</bdi>],
      ]}
    />
  );
}
