/** Who is notified of what waits, failed or can be updated: this browser, when it is asked to, and the webhook of the settings. */
import { Alert, Button, Checkbox, Code, Group, Stack, Text } from "@mantine/core";
import { IconBell, IconSend } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import type { Settings } from "@/api/machine";
import { tryWebhook } from "@/api/news";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { notify, notifyProblem } from "@/parts/notify";
import { NEWS, permission, show, useWanted, want } from "@/parts/notifying";
import { Section } from "@/parts/Section";

import { machine } from "./words";

const EXAMPLE = `[server.notifications]
url = "https://hooks.example.com/skillyard"
events = ["approval", "failure", "update"]
secret-variable = "SKILLYARD_WEBHOOK_SECRET"`;

export function Notifications({ settings }: { settings: Settings }) {
  const t = useText(machine);
  return (
    <Section title={t.notifications} lead={t.notificationsWhy}>
      <Stack gap="lg">
        <ThisBrowser />
        <Webhook webhook={settings.notifications} />
      </Stack>
    </Section>
  );
}

function ThisBrowser() {
  const t = useText(machine);
  const wanted = useWanted();
  const [allowed, setAllowed] = useState(permission);
  const turnOn = async () => {
    const now = await Notification.requestPermission();
    setAllowed(now);
    if (now !== "granted") return;
    if (show(t.browserOn, t.browserOnWhy, "skillyard-on", () => undefined)) want(NEWS);
    else setAllowed("missing");
  };
  const on = allowed === "granted" && wanted.length > 0;
  return (
    <Stack gap="xs" align="flex-start">
      <Text fw={600} size="sm">
        {t.browser}
      </Text>
      <Text size="sm" c="dimmed" maw={680}>
        {t.browserWhy}
      </Text>
      {allowed === "denied" && <Alert color="yellow">{t.browserDenied}</Alert>}
      {allowed === "missing" && <Alert color="gray">{t.browserMissing}</Alert>}
      {!on && allowed !== "missing" && allowed !== "denied" && (
        <Button size="xs" variant="default" leftSection={<IconBell size={16} />} onClick={() => void turnOn()}>
          {t.browserTurnOn}
        </Button>
      )}
      {on && (
        <Checkbox.Group aria-label={t.browser} value={[...wanted]} onChange={(chosen) => want(NEWS.filter((kind) => chosen.includes(kind)))}>
          <Stack gap="xs">
            {NEWS.map((kind) => (
              <Checkbox key={kind} size="sm" value={kind} label={t.news[kind]} />
            ))}
          </Stack>
        </Checkbox.Group>
      )}
    </Stack>
  );
}

function Webhook({ webhook }: { webhook: Settings["notifications"] }) {
  const t = useText(machine);
  const admin = useMay("admin");
  const trying = useMutation({
    mutationFn: tryWebhook,
    onSuccess: ({ host }) => notify({ color: "pine", title: t.webhookTook(visible(host)), message: "" }),
    onError: notifyProblem,
  });
  return (
    <Stack gap="xs" align="stretch">
      <Text fw={600} size="sm">
        {t.webhook}
      </Text>
      {webhook ? (
        <>
          <Text size="sm">
            <bdi>{visible(webhook.host)}</bdi> · {webhook.events.map((event) => t.events[event]).join(", ")} · {webhook.signed ? t.signed : t.unsigned}
          </Text>
          {admin && (
            <Group>
              <Button size="xs" variant="default" leftSection={<IconSend size={16} />} loading={trying.isPending} onClick={() => trying.mutate()}>
                {t.webhookTry}
              </Button>
            </Group>
          )}
        </>
      ) : (
        <>
          <Text size="sm" c="dimmed" maw={680}>
            {t.webhookNone}
          </Text>
          <Code block style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{/* wrapped: what scrolls must take the focus */}
            {EXAMPLE}
          </Code>
        </>
      )}
    </Stack>
  );
}
