/** The command by which somebody else gets a skill: from this server where it is installed, else from its folder. */
import { installedId, type SkillDetail } from "@/api/skills";

export const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`);

export function installCommand({ id, directory }: Pick<SkillDetail, "id" | "directory">): string {
  const known = installedId(id);
  return known ? `skillyard install ${window.location.origin} --skill ${known}` : `skillyard install ${quoted(directory)}`;
}
