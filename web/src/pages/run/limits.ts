/** The limits of a run as people say them: 10 s, 256 MB. */
import type { Format } from "@/i18n/format";

const MB = 1024 * 1024;

/** What a limit comes to; its name ends with the unit. */
export function limitValue(name: string, value: unknown, format: Pick<Format, "bytes" | "duration" | "number">): string {
  if (typeof value === "string") return value;
  if (typeof value !== "number") return JSON.stringify(value);
  if (name.endsWith("_ms")) return format.duration(value);
  if (name.endsWith("_seconds")) return format.duration(value * 1000);
  if (name.endsWith("_mb") || name === "kernel_memory") return format.bytes(value * MB);
  if (name.endsWith("_bytes")) return format.bytes(value);
  return format.number(value);
}
