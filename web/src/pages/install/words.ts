import { words } from "@/i18n";

export const install = words(
  {
    title: "Install",
    lead: "From an archive, a folder or an address. Nothing is installed before you have seen what it is.",
    archive: "Choose an archive",
    installed: (name: string, version: string) => `${name} ${version} is installed`,
  },
  {
    title: "安装",
    lead: "从压缩包、文件夹或网址安装。在您看清内容之前，什么都不会被安装。",
    archive: "选择压缩包",
    installed: (name, version) => `${name} ${version} 已安装`,
  },
);
