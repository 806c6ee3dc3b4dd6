/** Fills the form of a skill with what a run of it was given, as far as that is recorded: neither secrets nor files are. */
import type { RunDetail } from "@/api/runs";
import type { SkillDetail } from "@/api/skills";
import { keepWritten } from "@/parts/kept";

import { fieldsOf, givenValues } from "./schemaForm";

const REDACTED = "[redacted]"; // as the server writes in the place of a secret
const OWNERS = new Set(["userId", "householdId", "taskId", "groupId"]); // the server says them

const without = (values: Record<string, unknown>, dropped: ReadonlySet<string> = new Set()): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== REDACTED && !dropped.has(name)));

type Given = Pick<RunDetail, "parameters" | "context" | "entry" | "arguments" | "packages">;

/** Fills the form in which a schedule is changed; a secret is shown as the server sends it, and stays what it is where it is sent so. */
export function writeScheduled(skill: Pick<SkillDetail, "id" | "input_schema" | "run">, place: string, { parameters, entry, arguments: line, packages }: Omit<Given, "context">): void {
  const fields = fieldsOf(skill.input_schema);
  const beyond = fields && Object.keys(parameters).some((name) => !fields.some((field) => field.name === name));
  keepWritten(`parameters:${place}`, { asJson: !fields || beyond, json: JSON.stringify(parameters, null, 2), values: fields ? givenValues(fields, parameters) : {} });
  keepWritten(`run:${place}`, { entry: entry && entry !== skill.run.entry ? entry : "", line: line.join("\n"), packages: packages.join("\n"), context: "" });
}

export function writeAgain(skill: Pick<SkillDetail, "id" | "input_schema" | "run">, run: Given): void {
  const fields = fieldsOf(skill.input_schema);
  const parameters = without(run.parameters);
  const beyond = fields && Object.keys(parameters).some((name) => !fields.some((field) => field.name === name));
  keepWritten(`parameters:${skill.id}`, { asJson: !fields || beyond, json: JSON.stringify(parameters, null, 2), values: fields ? givenValues(fields, parameters) : {} });
  const context = without(run.context, OWNERS);
  keepWritten(`run:${skill.id}`, {
    entry: run.entry && run.entry !== skill.run.entry ? run.entry : "",
    line: run.arguments.filter((one) => !one.includes(REDACTED)).join("\n"),
    packages: run.packages.join("\n"),
    context: Object.keys(context).length > 0 ? JSON.stringify(context, null, 2) : "",
  });
}
