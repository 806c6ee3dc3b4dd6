/** The pools of workers, who serves them, what they run, and how much waits. */
import { Alert, Badge, Group, Skeleton, Stack, Table, Text } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { type Worker, type Workers, workersQuery } from "@/api/workers";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { DataTable } from "@/parts/DataTable";
import { FactList } from "@/parts/FactList";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Page } from "@/parts/Page";
import { Section } from "@/parts/Section";

import { workersWords } from "./words";

const COLOURS: Record<Worker["state"], string> = { working: "pine", idle: "gray", draining: "yellow", gone: "red" };

export function WorkersPage() {
  const t = useText(workersWords);
  const query = useQuery(workersQuery());
  return (
    <Page title={t.title} lead={t.lead}>
      <Loaded query={query} skeleton={<Skeleton h={360} />}>
        {(found) => (
          <Stack gap="md">
            <Section title={t.engine}>
              <FactList facts={[[found.engine, t.engines[found.engine]]]} />
            </Section>
            {found.reason ? (
              <Alert color="gray" icon={<IconInfoCircle size={20} />} title={t.noWorkers}>
                <Text size="sm" lang="en" style={{ overflowWrap: "anywhere" }}>
                  {visible(found.reason)}
                </Text>
              </Alert>
            ) : (
              <>
                <Pools pools={found.pools} />
                <Crew workers={found.workers} />
              </>
            )}
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Pools({ pools }: { pools: Workers["pools"] }) {
  const t = useText(workersWords);
  const format = useFormat();
  return (
    <Section title={t.pools} empty={!pools.length && t.noPools}>
      <DataTable minWidth={420} dense columns={[t.pool, { name: t.serving, right: true }, { name: t.waiting, right: true }, { name: t.running, right: true }]}>
        {pools.map((pool) => (
          <Table.Tr key={pool.name}>
            <Table.Td>{visible(pool.name)}</Table.Td>
            <Table.Td ta="right">{format.number(pool.workers)}</Table.Td>
            <Table.Td ta="right">{format.number(pool.waiting)}</Table.Td>
            <Table.Td ta="right">{format.number(pool.running)}</Table.Td>
          </Table.Tr>
        ))}
      </DataTable>
    </Section>
  );
}

function Crew({ workers }: { workers: Workers["workers"] }) {
  const t = useText(workersWords);
  return (
    <Section title={t.workers} empty={!workers.length && t.nobody}>
      <DataTable minWidth={640} dense columns={[t.worker, t.pools, t.state, t.runs, t.seen]}>
        {workers.map((worker) => (
          <Row key={worker.id} worker={worker} />
        ))}
      </DataTable>
    </Section>
  );
}

function Row({ worker }: { worker: Worker }) {
  const t = useText(workersWords);
  const format = useFormat();
  return (
    <Table.Tr>
      <Table.Td style={{ overflowWrap: "anywhere" }}>{visible(worker.id)}</Table.Td>
      <Table.Td>{worker.pools.map(visible).join(", ")}</Table.Td>
      <Table.Td>
        <Badge color={COLOURS[worker.state]}>{t.states[worker.state]}</Badge>
      </Table.Td>
      <Table.Td>
        <Group gap="xs">
          <span>{t.turns(format.number(worker.running.length), format.number(worker.concurrency))}</span>
          {worker.running.map((id) => (
            <AnchorLink key={id} to="/runs/$id" params={{ id }} size="sm">
              {id.slice(-8)}
            </AnchorLink>
          ))}
        </Group>
      </Table.Td>
      <Table.Td title={format.time(worker.seen_at)}>{format.ago(worker.seen_at)}</Table.Td>
    </Table.Tr>
  );
}
