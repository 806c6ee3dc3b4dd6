/** A value that follows what is written once nobody writes; objects that say the same are the same value. */
import { useDebouncedValue } from "@mantine/hooks";
import { useMemo } from "react";

/** The value of `wait` ms ago when it has not changed since; plain data only. An object made anew by each render does not draw again. */
export function useDebouncedData<Data>(value: Data, wait: number): Data {
  const [text] = useDebouncedValue(JSON.stringify(value), wait);
  return useMemo(() => JSON.parse(text) as Data, [text]);
}
