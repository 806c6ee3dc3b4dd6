/** Makes a key, and shows it this once. */
import { Alert, Button, Checkbox, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { keysQuery, makeKey, organisationsQuery, type Scope, SCOPES } from "@/api/keys";
import { useText } from "@/i18n";
import { CopyLine } from "@/parts/CopyLine";
import { Dialog } from "@/parts/Dialog";
import { FormFooter } from "@/parts/FormFooter";

import { keys as table } from "./words";

const DAYS = [7, 30, 90, 365] as const;

export function MakeKey({ opened, close }: { opened: boolean; close: () => void }) {
  const t = useText(table);
  const [secret, setSecret] = useState<string>();
  const leave = () => {
    setSecret(undefined);
    close();
  };
  return (
    <Dialog opened={opened} close={leave} title={secret ? t.made : t.make} size="lg" closeOnClickOutside={!secret} closeOnEscape={!secret}>
      {secret ? <Made secret={secret} done={leave} /> : <Form made={setSecret} cancel={close} />}
    </Dialog>
  );
}

function Form({ made, cancel }: { made: (secret: string) => void; cancel: () => void }) {
  const t = useText(table);
  const cache = useQueryClient();
  const organisations = useQuery({ ...organisationsQuery(), retry: false });
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Scope[]>(["skills:read"]);
  const [organisation, setOrganisation] = useState<string | null>(null);
  const [days, setDays] = useState<string | null>("90");
  const making = useMutation({
    mutationFn: makeKey,
    onSuccess: ({ secret }) => made(secret),
    onSettled: () => cache.invalidateQueries(keysQuery()),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        making.mutate({ name: name.trim(), scopes, organisation, expires_in_days: days === null || days === "never" ? null : Number(days) });
      }}
    >
      <Stack gap="md">
        <TextInput label={t.name} description={t.nameHint} value={name} onChange={({ currentTarget }) => setName(currentTarget.value)} maxLength={80} required data-autofocus />
        <Checkbox.Group label={t.scopes} value={scopes} onChange={(value) => setScopes(value)} required>
          <Stack gap="xs" mt="xs">
            {SCOPES.map((scope) => (
              <Checkbox key={scope} value={scope} label={scope} description={t.scopeWhy[scope]} />
            ))}
          </Stack>
        </Checkbox.Group>
        {organisations.data && organisations.data.length > 1 && (
          <Select
            label={t.organisation}
            description={t.organisationHint}
            data={organisations.data.map(({ name }) => name)}
            value={organisation ?? "default"}
            onChange={setOrganisation}
            allowDeselect={false}
          />
        )}
        <Select
          label={t.expires}
          data={[...DAYS.map((count) => ({ value: String(count), label: t.days(count) })), { value: "never", label: t.never }]}
          value={days}
          onChange={setDays}
          allowDeselect={false}
        />
        <FormFooter cancel={cancel} submit={t.make} busy={making.isPending} disabled={!name.trim() || !scopes.length} error={making.error} />
      </Stack>
    </form>
  );
}

function Made({ secret, done }: { secret: string; done: () => void }) {
  const t = useText(table);
  return (
    <Stack gap="md">
      <Alert color="yellow" icon={<IconAlertTriangle size={20} />}>
        {t.once}
      </Alert>
      <CopyLine text={secret} label={t.key} />
      <Text size="sm">{t.use}</Text>
      <CopyLine text={`Authorization: Bearer ${secret}`} />
      <Group justify="flex-end">
        <Button onClick={done}>{t.done}</Button>
      </Group>
    </Stack>
  );
}
