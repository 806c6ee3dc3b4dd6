/** For each tool whether a model may use it by itself, must ask, or has none of it. */
import { Box, SegmentedControl, Stack, Text } from "@mantine/core";

import { WORKSPACE_TOOLS } from "@/api/workspace";
import { labels, useText, words } from "@/i18n";

import classes from "./ToolRules.module.css";

const table = words(
  {
    choices: { allow: "allow", ask: "ask", deny: "off" },
    of: (tool: string) => `Rule for ${tool}`,
    skills: "Skills",
    workspace: "Workspace",
    hints: labels({
      skill: "loads a skill",
      read_skill_file: "reads a file of a skill",
      run_skill: "runs a script of a skill",
      search_skills: "looks for skills",
      skills_list: "lists skills",
      skills_load: "loads a skill",
      bash: "runs commands",
      code_run: "runs programs it writes",
      file_read: "reads a file",
      file_write: "writes a file",
      file_edit: "changes a file",
      file_list: "lists a folder",
      file_search: "searches files",
    }),
  },
  {
    choices: { allow: "允许", ask: "询问", deny: "关闭" },
    of: (tool) => `${tool} 的规则`,
    skills: "技能",
    workspace: "工作区",
    hints: labels({
      skill: "加载技能",
      read_skill_file: "读取技能的文件",
      run_skill: "运行技能的脚本",
      search_skills: "查找技能",
      skills_list: "列出技能",
      skills_load: "加载技能",
      bash: "运行命令",
      code_run: "运行它写的程序",
      file_read: "读取文件",
      file_write: "写入文件",
      file_edit: "修改文件",
      file_list: "列出文件夹",
      file_search: "搜索文件",
    }),
  },
);

export type ToolRule = "allow" | "ask" | "deny";
export type Rules = Readonly<Record<string, ToolRule>>;

const GROUPS = [
  ["skills", ["skill", "read_skill_file", "run_skill", "search_skills", "skills_list", "skills_load"]],
  ["workspace", WORKSPACE_TOOLS],
] as const;

interface Props {
  rules: Rules;
  change: (rules: Record<string, ToolRule>) => void;
  /** Without a workspace its tools are not there. */
  workspace: boolean;
}

export function ToolRules({ rules, change, workspace: working }: Props) {
  const t = useText(table);
  const set = (tool: string, rule: ToolRule) => {
    const others = Object.entries(rules).filter(([name]) => name !== tool);
    change(Object.fromEntries(rule === "allow" ? others : [...others, [tool, rule]]));
  };
  return (
    <Stack gap="md">
      {GROUPS.filter(([group]) => working || group !== "workspace").map(([group, tools]) => (
        <Box key={group}>
          <Text size="xs" fw={600} c="dimmed" mb={4}>
            {t[group]}
          </Text>
          {tools.map((tool) => (
            <div key={tool} className={classes.tool}>
              <div className={classes.name}>
                <Text size="sm" ff="monospace">
                  {tool}
                </Text>
                <Text size="xs" c="dimmed">
                  {t.hints[tool]}
                </Text>
              </div>
              <SegmentedControl
                size="xs"
                aria-label={t.of(tool)}
                value={rules[tool] ?? "allow"}
                onChange={(value) => set(tool, value)}
                data={(["allow", "ask", "deny"] as const).map((value) => ({ value, label: t.choices[value] }))}
              />
            </div>
          ))}
        </Box>
      ))}
    </Stack>
  );
}
