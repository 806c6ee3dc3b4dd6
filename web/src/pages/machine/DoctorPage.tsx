/** Whether this machine has what is needed, and how to fix what is missing. */
import { Alert, Badge, Button, Code, Group, Skeleton, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { type Check, doctorQuery } from "@/api/machine";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { visible } from "@/parts/foreign";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";

import classes from "./DoctorPage.module.css";
import { machine } from "./words";

const COLOURS: Record<Check["status"], string> = { ok: "pine", warning: "yellow", error: "red" };

export function DoctorPage() {
  const t = useText(machine);
  const query = useQuery(doctorQuery());
  const waiting = (
    <Stack gap="sm">
      <Text size="sm" c="dimmed" role="status">
        {t.looking}
      </Text>
      <Skeleton h={420} />
    </Stack>
  );
  return (
    <Page
      title={t.doctor}
      lead={t.doctorLead}
      actions={
        <Button variant="default" leftSection={<IconRefresh size={16} />} loading={query.isFetching} onClick={() => void query.refetch()}>
          {t.again}
        </Button>
      }
    >
      <Loaded query={query} skeleton={waiting}>
        {({ ok, checks }) => (
          <Stack gap="md">
            <Alert color={ok ? "pine" : "red"} icon={ok ? <IconCircleCheck size={20} /> : <IconAlertTriangle size={20} />} title={ok ? standing(checks, t) : t.ill} />
            <ul className={classes.checks}>
              {checks.map((check) => (
                <One key={`${check.name} ${check.detail}`} check={check} />
              ))}
            </ul>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

/** That it works, and how many skills, or other things, lack something. */
function standing(checks: readonly Check[], t: Pick<typeof machine.en, "well" | "wanting" | "wantingSkills">): string {
  const wanting = checks.filter(({ status }) => status === "warning").map(({ name }) => name);
  if (wanting.length === 0) return t.well;
  const names = new Set(wanting);
  return wanting.every((name) => name.startsWith("skill ")) ? t.wantingSkills(names.size) : t.wanting(names.size);
}

function One({ check }: { check: Check }) {
  const t = useText(machine);
  const meaning = useMeaning("checks");
  const [kind = "", ...rest] = check.name.split(" ");
  const whole = meaning(check.name);
  const meant = whole ?? meaning(kind);
  const name = meant ? [meant.title, ...(whole ? [] : rest)].join(" ") : check.name;
  return (
    <li className={classes.check}>
      <Group gap="sm" wrap="nowrap" align="flex-start">
        <div className={classes.state}>
          <Badge color={COLOURS[check.status]}>{t.states[check.status]}</Badge>
        </div>
        <Stack gap={4} flex={1} miw={0}>
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            <Text span inherit fw={600}>
              {visible(name)}
            </Text>{" "}
            <bdi>{visible(check.detail)}</bdi>
          </Text>
          {check.status !== "ok" && meant && (
            <Text size="sm" c="dimmed">
              {t.fix} {meant.fix}
            </Text>
          )}
          {check.fix && (
            <Text size="sm" c="dimmed">
              {!meant && t.fix} <Code>{visible(check.fix)}</Code>
            </Text>
          )}
        </Stack>
      </Group>
    </li>
  );
}
