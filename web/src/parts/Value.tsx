/** What a script gave, drawn as what it is: a table, a picture, text, or its parts by name. Nothing in it acts. */
import { Anchor, Box, Code, ScrollArea, Table, Text } from "@mantine/core";
import { useState } from "react";

import { useText } from "@/i18n";
import { common } from "@/i18n/common";
import { useFormat } from "@/i18n/format";

import { visible } from "./foreign";
import { value as words } from "./valueWords";
import classes from "./Value.module.css";

type Shape = Readonly<Record<string, unknown>>;

const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/;
const DEEPEST = 4;
const COLUMNS = 12;
const ROWS = 50;

const isShape = (value: unknown): value is Shape => typeof value === "object" && value !== null && !Array.isArray(value);
const isFlat = (value: unknown): boolean => typeof value !== "object" || value === null;

/** The rows and columns of a list of alike, flat things; nothing for any other list. */
function tableOf(value: readonly unknown[]): { columns: string[]; rows: Shape[] } | undefined {
  const rows = value.filter(isShape);
  if (!rows.length || rows.length < value.length) return undefined;
  const columns = [...new Set(rows.slice(0, ROWS).flatMap((row) => Object.keys(row)))];
  const fits = columns.length > 0 && columns.length <= COLUMNS && rows.slice(0, ROWS).every((row) => Object.values(row).every(isFlat));
  return fits ? { columns, rows } : undefined;
}

/** The picture that a value is, as an address: its own data, or what tools write (`type: image`). */
export function pictureOf(value: unknown): string | undefined {
  if (typeof value === "string") return PICTURE.test(value) ? value : undefined;
  if (!isShape(value) || value.type !== "image" || typeof value.data !== "string") return undefined;
  const kind = value.mimeType ?? value.media_type;
  return typeof kind === "string" ? pictureOf(`data:${kind};base64,${value.data}`) : undefined;
}

export function Value({ value, depth = 0 }: { value: unknown; depth?: number }) {
  const t = useText(common);
  const w = useText(words);
  const picture = pictureOf(value);
  if (picture) return <img src={picture} alt={w.picture} className={classes.picture} />;
  if (value === null || value === undefined)
    return (
      <Text component="span" size="sm" c="dimmed">
        {t.none}
      </Text>
    );
  if (typeof value === "string") return <Words text={value} />;
  if (typeof value === "number" || typeof value === "boolean") return <span className={classes.fact}>{String(value)}</span>;
  if (depth >= DEEPEST) return <Json value={value} />;
  if (Array.isArray(value)) return <Items items={value} depth={depth} />;
  return isShape(value) ? <Parts shape={value} depth={depth} /> : <Json value={value} />;
}

/** A value as it was written. */
export function Json({ value }: { value: unknown }) {
  return (
    <ScrollArea.Autosize mah={420} type="auto" viewportProps={{ tabIndex: 0 }}>
      <pre className={classes.printed}>{visible(JSON.stringify(value, null, 2))}</pre>
    </ScrollArea.Autosize>
  );
}

function Words({ text }: { text: string }) {
  const shown = visible(text);
  if (!shown) return <Code>&quot;&quot;</Code>;
  return shown.includes("\n") ? (
    <pre className={classes.printed}>{shown}</pre>
  ) : (
    <bdi className={classes.line}>{shown}</bdi>
  );
}

function Items({ items, depth }: { items: readonly unknown[]; depth: number }) {
  const w = useText(words);
  const table = tableOf(items);
  if (!items.length)
    return (
      <Text component="span" size="sm" c="dimmed">
        {w.emptyList}
      </Text>
    );
  if (table) return <Grid {...table} />;
  if (items.every(isFlat) && items.length <= ROWS)
    return (
      <Box className={classes.items}>
        {items.map((item, index) => (
          <Code key={index}>{typeof item === "string" ? visible(item) : String(item)}</Code>
        ))}
      </Box>
    );
  if (items.length > ROWS) return <Json value={items} />;
  return (
    <Box component="ol" className={classes.list ?? ""}>
      {items.map((item, index) => (
        <li key={index}>
          <Value value={item} depth={depth + 1} />
        </li>
      ))}
    </Box>
  );
}

/** A table; with `names` each row begins with its own. */
function Grid({ columns, rows, names }: { columns: string[]; rows: Shape[]; names?: string[] }) {
  const c = useText(common);
  const format = useFormat();
  const [count, setCount] = useState(ROWS);
  const numeric = new Set(columns.filter((name) => rows.every((row) => row[name] === undefined || typeof row[name] === "number")));
  return (
    <>
      <Table.ScrollContainer type="native" tabIndex={0} minWidth={Math.min(columns.length * 80, 900)} className={classes.grid ?? ""}>
        <Table verticalSpacing={5} fz="sm">
          <Table.Thead>
            <Table.Tr>
              {names && <Table.Td />}
              {columns.map((name) => (
                <Table.Th key={name} ta={numeric.has(name) ? "right" : "left"}>
                  <bdi>{visible(name)}</bdi>
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice(0, count).map((row, index) => (
              <Table.Tr key={index}>
                {names && (
                  <Table.Th scope="row">
                    <bdi>{visible(names[index] ?? "")}</bdi>
                  </Table.Th>
                )}
                {columns.map((name) => (
                  <Table.Td key={name} className={numeric.has(name) ? (classes.number ?? "") : ""}>
                    <bdi>{cell(row[name])}</bdi>
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rows.length > count && (
        <Anchor component="button" type="button" size="sm" onClick={() => setCount(count + 200)}>
          {c.more} ({format.number(rows.length - count)})
        </Anchor>
      )}
    </>
  );
}

const cell = (value: unknown): string => (value === undefined || value === null ? "–" : typeof value === "string" ? visible(value) : JSON.stringify(value));

function Parts({ shape, depth }: { shape: Shape; depth: number }) {
  const w = useText(words);
  const entries = Object.entries(shape);
  if (!entries.length)
    return (
      <Text component="span" size="sm" c="dimmed">
        {w.emptyObject}
      </Text>
    );
  const table = entries.length > 1 && tableOf(Object.values(shape));
  if (table) return <Grid {...table} names={Object.keys(shape)} />;
  return (
    <dl className={classes.parts}>
      {entries.slice(0, 100).map(([name, part]) => (
        <div key={name} className={classes.part}>
          <dt>
            <bdi>{visible(name)}</bdi>
          </dt>
          <dd>
            <Value value={part} depth={depth + 1} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
