import { words } from "@/i18n";

export const clients = words(
  {
    title: "Who can load it",
    commands: "Install it elsewhere",
    commandsWhy: "Each command is run where that client runs, and takes the skill from this server.",
    local: "Use it from here",
    localWhy: "The skill is not installed on this server, so other machines cannot fetch it from here. Install it first; on this machine, agents reach it over MCP.",
    installFirst: "Install it here, with versions",
    mcp: "Any MCP client on this machine",
    read: "Read it in a terminal",
    run: "Run it in a terminal",
    npx: "npx skills: puts it into the folders of your agents",
    skillyard: "Skillyard on another machine",
    archive: "The archive itself",
  },
  {
    title: "谁能加载它",
    commands: "安装到别处",
    commandsWhy: "在相应客户端所在的机器上执行，技能从这台服务器获取。",
    local: "在本机使用",
    localWhy: "这个技能没有安装在这台服务器上，其他机器无法从这里获取。请先安装；在本机上，智能体可通过 MCP 使用它。",
    installFirst: "安装到这里，带版本管理",
    mcp: "本机上的任意 MCP 客户端",
    read: "在终端中查看",
    run: "在终端中运行",
    npx: "npx skills：放进各智能体的文件夹",
    skillyard: "另一台机器上的 Skillyard",
    archive: "压缩包本身",
  },
);
