/** A small chart of counts over time: a bar for each day or week, made of parts; each leads somewhere, and a table says the same. */
import { ActionIcon, Box, Group, Text, Tooltip } from "@mantine/core";
import { IconChartBar, IconTable } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { RunState } from "@/api/runStates";
import type { RunsSearch } from "@/app/search";
import { useText, words } from "@/i18n";
import { useFormat } from "@/i18n/format";

import classes from "./Bars.module.css";
import { axisTop } from "./figures";

const table = words(
  { asTable: "Show as a table", asChart: "Show as a chart", when: "When", none: "none" },
  { asTable: "显示为表格", asChart: "显示为图表", when: "时间", none: "无" },
);

/** A part of every bar, by its colour and name. */
export interface Part {
  name: string;
  colour: "good" | "bad" | "other";
  /** The runs of this part alone, where one state says it. */
  state?: RunState;
}

export interface Bar {
  /** Below the chart, where there is room. */
  label: string;
  /** One count for each part. */
  counts: readonly number[];
  /** The runs that it counts. */
  runs: RunsSearch;
}

interface Props {
  label: string;
  parts: readonly Part[];
  bars: readonly Bar[];
  /** In pixels. */
  height?: number;
}

export function Bars({ label, parts, bars, height = 160 }: Props) {
  const t = useText(table);
  const [asTable, setAsTable] = useState(false);
  const Icon = asTable ? IconChartBar : IconTable;
  return (
    <figure className={classes.figure} aria-label={label}>
      <Group gap="md" mb={16} wrap="nowrap" justify="space-between">
        <Group gap="md" component="figcaption">
          {parts.map(({ name, colour }) => (
            <Group key={name} gap={6} wrap="nowrap">
              <span className={classes.mark} data-colour={colour} aria-hidden />
              <Text size="xs" c="dimmed" component="span">
                {name}
              </Text>
            </Group>
          ))}
        </Group>
        <Tooltip label={asTable ? t.asChart : t.asTable}>
          <ActionIcon size="sm" aria-label={asTable ? t.asChart : t.asTable} onClick={() => setAsTable(!asTable)}>
            <Icon size={16} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
      </Group>
      <Box style={{ minHeight: height + 24 }}>{asTable ? <Figures parts={parts} bars={bars} /> : <Drawn parts={parts} bars={bars} height={height} />}</Box>
    </figure>
  );
}

function Drawn({ parts, bars, height }: Required<Pick<Props, "parts" | "bars" | "height">>) {
  const t = useText(table);
  const format = useFormat();
  const top = axisTop(Math.max(...bars.map(({ counts }) => sum(counts)), 1));
  const said = (counts: readonly number[]) =>
    parts
      .flatMap(({ name }, index) => (counts[index] ? [`${name} ${format.number(counts[index])}`] : []))
      .join(", ") || t.none;
  return (
    <>
      <div className={classes.plot} style={{ height }}>
        {[top, top / 2].map((value) => (
          <div key={value} className={classes.line} style={{ top: `${(1 - value / top) * 100}%` }} aria-hidden>
            {format.short(value)}
          </div>
        ))}
        <ol className={classes.bars}>
          {bars.map(({ label, counts, runs }) => (
            <li key={label}>
              <Tooltip label={`${label}: ${said(counts)}`} openDelay={0}>
                <Link to="/runs" search={runs} className={classes.bar} aria-label={`${label}: ${said(counts)}`}>
                  {parts.map(({ name, colour }, index) =>
                    counts[index] ? <span key={name} data-colour={colour} style={{ height: `${(counts[index] / top) * 100}%` }} /> : null,
                  )}
                </Link>
              </Tooltip>
            </li>
          ))}
        </ol>
      </div>
      <div className={classes.axis} aria-hidden>
        {[bars[0], bars[Math.floor((bars.length - 1) / 2)], bars.at(-1)].map((bar, index) => (
          <span key={index}>{bar?.label}</span>
        ))}
      </div>
    </>
  );
}

function Figures({ parts, bars }: Pick<Props, "parts" | "bars">) {
  const t = useText(table);
  const format = useFormat();
  return (
    <div className={classes.scroll} tabIndex={0}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t.when}</th>
            {parts.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {bars.map(({ label, counts, runs }) => (
            <tr key={label}>
              <th scope="row">
                <Link to="/runs" search={runs}>
                  {label}
                </Link>
              </th>
              {parts.map(({ name, state }, index) => (
                <td key={name}>
                  {state && counts[index] ? (
                    <Link to="/runs" search={{ ...runs, state }}>
                      {format.number(counts[index])}
                    </Link>
                  ) : (
                    format.number(counts[index] ?? 0)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const sum = (counts: readonly number[]): number => counts.reduce((all, one) => all + one, 0);

/** How much of something there is beside others: a thin line below its row. */
export function Meter({ share, colour = "good" }: { share: number; colour?: Part["colour"] }) {
  return (
    <div className={classes.meter} aria-hidden>
      <span data-colour={colour} style={{ width: `${Math.min(1, Math.max(share, share > 0 ? 0.01 : 0)) * 100}%` }} />
    </div>
  );
}
