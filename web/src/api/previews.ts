/** A file as it can be shown: plain data, whoever wrote it. */
import type { UseQueryOptions } from "@tanstack/react-query";

import type { components } from "./schema";

export type Preview =
  | { kind: "text" | "markdown"; text: string; truncated: boolean }
  | { kind: "image"; picture: string }
  /** One page, drawn, with its text for those who do not see it. */
  | { kind: "pdf"; page: number; pages: number; text: string; picture: string | undefined }
  | { kind: "table"; sheets: readonly string[]; sheet: number; rows: readonly (readonly string[])[]; truncated: boolean }
  | { kind: "binary"; reason: string };

/** Asks for a page of a document, or a sheet of a workbook, both from 0; other files have one of each. */
export type PreviewQuery = (part: number) => UseQueryOptions<Preview>;

/** What the server shows of a file. */
export function shown({ kind, text, truncated, image, page, pages, sheets, sheet, rows, reason }: components["schemas"]["FilePreview"]): Preview {
  const picture = image ? `data:${image.media_type};base64,${image.data}` : undefined;
  switch (kind) {
    case "image":
      return picture ? { kind, picture } : { kind: "binary", reason: "" };
    case "pdf":
      return { kind, page: page ?? 1, pages: pages ?? 1, text: text ?? "", picture };
    case "table":
      return { kind, sheets, sheet: sheet ?? 0, rows, truncated };
    case "binary":
      return { kind, reason: reason ?? "" };
    default:
      return { kind, text: text ?? "", truncated };
  }
}
