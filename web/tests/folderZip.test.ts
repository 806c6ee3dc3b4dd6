import { unzipSync } from "fflate";
import { describe, expect, it } from "vitest";

import { FolderRefused, isArchive, isSkipped, zipped } from "@/pages/install/folderZip";

function entry(path: string, content: BlobPart = "x") {
  const file = new File([content], path.split("/").at(-1) ?? path, { lastModified: 0 });
  // jsdom's File has no arrayBuffer
  Object.defineProperty(file, "arrayBuffer", { value: () => new Response(content).arrayBuffer() });
  return { path, file };
}

async function unpacked(file: File): Promise<Record<string, string>> {
  const bytes = await new Promise<ArrayBuffer>((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as ArrayBuffer);
    reader.readAsArrayBuffer(file);
  });
  return Object.fromEntries(Object.entries(unzipSync(new Uint8Array(bytes))).map(([name, data]) => [name, new TextDecoder().decode(data)]));
}

describe("a folder becomes an archive", () => {
  it("with every file at its path, and the folder's name", async () => {
    const reported: number[] = [];
    const packed = await zipped([entry("pdf/SKILL.md", "# PDF"), entry("pdf/scripts/表.py", "print(1)"), entry("pdf/a.png", "raw")], (done) => reported.push(done));
    expect(packed.name).toBe("pdf.zip");
    expect(await unpacked(packed)).toEqual({ "pdf/SKILL.md": "# PDF", "pdf/scripts/表.py": "print(1)", "pdf/a.png": "raw" });
    expect(reported).toEqual([1, 2, 3]);
  });

  it("without history and what can be made again", async () => {
    const packed = await zipped([entry("a/SKILL.md"), entry("a/.git/HEAD"), entry("a/node_modules/x/i.js"), entry("a/.DS_Store")]);
    expect(Object.keys(await unpacked(packed))).toEqual(["a/SKILL.md"]);
    expect(isSkipped("a/gitless/x")).toBe(false);
  });

  it("only when there is a skill in it", async () => {
    await expect(zipped([entry("a/readme.md")])).rejects.toEqual(new FolderRefused("no-skill"));
    await expect(zipped([])).rejects.toEqual(new FolderRefused("empty"));
    await expect(zipped([entry("a/.git/SKILL.md")])).rejects.toEqual(new FolderRefused("empty"));
  });

  it("and an archive is recognised by its name", () => {
    expect(["a.zip", "A.SKILL", "x.tar.gz", "x.tgz", "x.tar", "x.gz", "zip"].map(isArchive)).toEqual([true, true, true, true, true, false, false]);
  });
});
