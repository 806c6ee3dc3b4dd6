/** A sheet of a workbook, or a table of text, with the names of its rows and columns. */
import { Box, NativeSelect, Stack } from "@mantine/core";

import type { Preview } from "@/api/previews";
import { useText, words } from "@/i18n";

import classes from "./FilePreview.module.css";
import { visible } from "./foreign";
import { Empty } from "./Section";

const table = words({ sheet: "Sheet", empty: "This sheet is empty." }, { sheet: "工作表", empty: "这个工作表是空的。" });
const NUMBER = /^-?[\d,]*\.?\d+(?:e[+-]?\d+)?%?$/i;

/** The name of a column, counted from 0: A to Z, AA, AB, … */
export function columnName(index: number): string {
  const letter = String.fromCharCode(65 + (index % 26));
  return index < 26 ? letter : columnName(Math.floor(index / 26) - 1) + letter;
}

interface Props {
  name: string;
  table: Extract<Preview, { kind: "table" }>;
  /** Go to a sheet, counted from 0. */
  turn: (sheet: number) => void;
  /** Another sheet is on its way. */
  busy: boolean;
}

export function Sheet({ name, table: { sheets, sheet, rows }, turn, busy }: Props) {
  const t = useText(table);
  const width = Math.max(0, ...rows.map((row) => row.length));
  return (
    <Stack gap="sm">
      {sheets.length > 1 && (
        <NativeSelect
          label={t.sheet}
          value={String(sheet)}
          disabled={busy}
          onChange={({ currentTarget }) => turn(Number(currentTarget.value))}
          data={sheets.map((label, index) => ({ value: String(index), label: visible(label) }))}
        />
      )}
      {width === 0 ? (
        <Empty>{t.empty}</Empty>
      ) : (
        <Box className={classes.sheet} tabIndex={0} role="region" aria-label={visible(name)}>
          <table>
            <thead>
              <tr>
                <td />
                {Array.from({ length: width }, (_, column) => (
                  <th key={column} scope="col">
                    {columnName(column)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, index) => (
                <tr key={index}>
                  <th scope="row">{index + 1}</th>
                  {Array.from({ length: width }, (_, column) => {
                    const text = visible(row[column] ?? "");
                    return (
                      <td key={column} data-number={NUMBER.test(text) || undefined} title={text.length > 40 ? text : undefined}>
                        <bdi>{text}</bdi>
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </Box>
      )}
    </Stack>
  );
}
