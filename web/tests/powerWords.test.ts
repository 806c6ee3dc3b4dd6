import { describe, expect, test } from "vitest";

import powers from "@/chinese/powers.json";
import { inTheseWords } from "@/i18n/chinese";

describe("what a skill may do, in Chinese", () => {
  test.each([
    ["has the script scripts/run.py", "含有脚本 scripts/run.py"],
    ["may run 60,000 ms", "最多可运行 60,000 毫秒"],
    ["may run 60,000 ms, before 30,000", "最多可运行 60,000 毫秒，之前为 30,000 毫秒"],
    ["uses the file system read-write, before read-only", "可以读写文件系统，之前只读"],
    ["may reach $& {} a, before b", "可以访问 $& {} a, before b"],
    ["brings the hidden file .a\nuses the tool Bash", "带有隐藏文件 .a\nuses the tool Bash"],
    ["report requires tables >=1.2", "report 需要 tables >=1.2"],
    ["does what nobody said before", "does what nobody said before"],
  ])("%s", (said, shown) => {
    expect(inTheseWords(powers, said)).toBe(shown);
  });
});
