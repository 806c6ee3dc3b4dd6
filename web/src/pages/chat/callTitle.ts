import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";

import { chat } from "./words";
import { workspace } from "./workspace/words";

/** What a call is about, from what the model wrote; that may be anything. */
export function useCallTitle({ tool, arguments: given }: { tool: string; arguments?: unknown }): string {
  const t = useText(chat);
  const w = useText(workspace);
  const values = typeof given === "object" && given !== null ? (given as Record<string, unknown>) : {};
  const of = (...names: string[]) => {
    const found = names.map((name) => values[name]).find((value) => typeof value === "string" && value);
    return typeof found === "string" ? visible(found).replace(/\s+/g, " ").slice(0, 80) : "?";
  };
  const skill = () => of("skill", "name", "skill_name", "id"); // older calls of some tools have it under another name
  switch (tool) {
    case "skill":
    case "skills_load":
      return t.tools[tool](skill());
    case "read_skill_file":
      return t.tools.read_skill_file(of("file_path", "path", "file"), skill());
    case "run_skill": {
      const words = Array.isArray(values.arguments) ? values.arguments.filter((one) => typeof one === "string") : [];
      const what = [typeof values.entry === "string" ? values.entry : "", ...words].filter(Boolean).join(" ");
      return t.tools.run_skill(skill(), visible(what).replace(/\s+/g, " ").slice(0, 60));
    }
    case "search_skills":
      return t.tools.search_skills(of("query", "q", "text"));
    case "skills_list":
      return t.tools.skills_list;
    case "bash": {
      const process = of("process");
      return values.command || !values.process ? `$ ${of("command")}` : values.stop === true ? w.process.stop(process) : w.process.read(process);
    }
    case "code_run":
      return w.tools.code_run(typeof values.language === "string" ? of("language") : "python");
    case "file_read":
    case "file_write":
    case "file_edit":
      return w.tools[tool](of("file_path", "path").replace(/^\/workspace\//, ""));
    case "file_list":
      return w.tools.file_list(typeof values.path === "string" && values.path ? of("path") : ".");
    case "file_search":
      return w.tools.file_search(of("pattern"));
    default:
      return t.tools.other(visible(tool).slice(0, 60) || "?");
  }
}
