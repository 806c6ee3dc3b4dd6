/** A table under the names of its columns; where it is too wide for the window it is pushed sideways. */
import { Table } from "@mantine/core";
import type { ReactNode } from "react";

export interface Column {
  /** Nothing stands above buttons. */
  name: ReactNode;
  /** Numbers stand at the right. */
  right?: boolean;
}

interface Props {
  columns: readonly (Column | string)[];
  /** In pixels: where there is less, it is pushed sideways. */
  minWidth: number;
  /** Narrow rows in small type, for what is only looked at. */
  dense?: boolean;
  /** The rows. */
  children: ReactNode;
}

export function DataTable({ columns, minWidth, dense = false, children }: Props) {
  return (
    <Table.ScrollContainer minWidth={minWidth} type="native" tabIndex={0}>
      <Table {...(dense ? { verticalSpacing: 6, fz: "sm" } : {})}>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column, index) => {
              const { name, right = false }: Column = typeof column === "string" ? { name: column } : column;
              return name ? (
                <Table.Th key={index} style={{ whiteSpace: "nowrap" }} {...(right ? { ta: "right" } : {})}>
                  {name}
                </Table.Th>
              ) : (
                <Table.Td key={index} />
              );
            })}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
