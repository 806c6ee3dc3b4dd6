/** A sentence of the server, in which what stands between backticks is code. */
import { Code } from "@mantine/core";

export function WithCode({ children }: { children: string }) {
  const parts = children.split("`");
  if (parts.length % 2 === 0) return <>{children}</>; // one of them has no other
  return <>{parts.map((part, index) => (index % 2 ? <Code key={index}>{part}</Code> : part))}</>;
}
