/** Several files as one archive, put together in the browser. */
import { problemOf } from "./problem";

interface Listed {
  name: string;
  address: string;
}

/** Download files and hand them to the person as one ZIP of that name. */
export async function downloadAll(archive: string, files: readonly Listed[]): Promise<void> {
  const { zipSync } = await import("fflate");
  const contents: Record<string, Uint8Array> = {};
  for (const { name, address } of files) {
    const found = await fetch(address, { credentials: "same-origin" });
    if (!found.ok) throw await problemOf(found);
    contents[name] = new Uint8Array(await found.arrayBuffer());
  }
  const address = URL.createObjectURL(new Blob([zipSync(contents, { level: 0 })], { type: "application/zip" }));
  const link = Object.assign(document.createElement("a"), { href: address, download: archive });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address));
}
