import { expect, test } from "vitest";

import { limitValue } from "@/pages/run/limits";

const format = { bytes: (value: number) => `${value} bytes`, duration: (value: number) => `${value} ms`, number: (value: number) => `n${value}` };

test("a limit is said with its unit", () => {
  const said = (name: string, value: unknown) => limitValue(name, value, format);
  expect(said("timeout_ms", 10_000)).toBe("10000 ms");
  expect(said("cpu_seconds", 11)).toBe("11000 ms");
  expect(said("memory_mb", 2)).toBe("2097152 bytes");
  expect(said("kernel_memory", 1)).toBe("1048576 bytes");
  expect(said("output_bytes", 5)).toBe("5 bytes");
  expect(said("pids", 64)).toBe("n64");
  expect(said("network", "none")).toBe("none");
  expect(said("hosts", ["a"])).toBe('["a"]');
});
