/** What can be done with a skill as a whole. */
import { ActionIcon, Button, Menu } from "@mantine/core";
import { IconDots, IconEye, IconEyeOff, IconFolderOpen, IconPackageOff, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { deleteSkill, installedId, openingQuery, openSkillFolder, type SkillDetail, toggleSkill, uninstallSkill } from "@/api/skills";
import { useText } from "@/i18n";
import { Confirm } from "@/parts/Confirm";
import { ButtonLink } from "@/parts/links";
import { notify, notifyProblem } from "@/parts/notify";
import { visible } from "@/parts/foreign";

import { skill as table } from "./words";

const route = getRouteApi("/skills/$id");

export function Actions({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const { tab } = route.useSearch();
  return (
    <>
      {skill.run.possible && tab !== "run" && (
        <ButtonLink to="/skills/$id" params={{ id: skill.id }} search={{ tab: "run" }} leftSection={<IconPlayerPlay size={16} />}>
          {t.tabs.run}
        </ButtonLink>
      )}
      <Toggle skill={skill} />
      <More skill={skill} />
    </>
  );
}

function Toggle({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const switching = useMutation({
    mutationFn: () => toggleSkill(skill.id),
    onSuccess: async () => {
      await Promise.all([cache.invalidateQueries({ queryKey: ["skill"] }), cache.invalidateQueries({ queryKey: ["catalog"] })]);
      notify({ message: skill.status === "disabled" ? t.switched.ok : t.switched.disabled });
    },
    onError: notifyProblem,
  });
  if (skill.status !== "ok" && skill.status !== "disabled") return null;
  const off = skill.status === "disabled";
  return (
    <Button variant="default" loading={switching.isPending} onClick={() => switching.mutate()} leftSection={off ? <IconEye size={16} /> : <IconEyeOff size={16} />}>
      {off ? t.enable : t.disable}
    </Button>
  );
}

/** Open the folder where the page is on the same machine; uninstall what was installed; delete what is the user's own. */
function More({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState(false);
  const here = useQuery(openingQuery()).data === true;
  const opening = useMutation({ mutationFn: () => openSkillFolder(skill.id), onError: notifyProblem });
  const known = installedId(skill.id);
  const name = visible(skill.name);
  const removing = useMutation({
    mutationFn: async () => (known ? await uninstallSkill(known) : await deleteSkill(skill.id)),
    onSuccess: async () => {
      setAsked(false);
      notify({ message: known ? t.uninstalled : t.removed });
      await cache.invalidateQueries();
      if (!known) await navigate({ to: "/skills" });
    },
    onError: notifyProblem,
  });
  const removable = known !== undefined || skill.source === "user";
  if (!removable && !here) return null;
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="default" size={36} aria-label={t.doing}>
            <IconDots size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {here && (
            <Menu.Item leftSection={<IconFolderOpen size={16} />} onClick={() => opening.mutate()}>
              {t.openFolder}
            </Menu.Item>
          )}
          {removable && (
            <Menu.Item color="red" leftSection={known ? <IconPackageOff size={16} /> : <IconTrash size={16} />} onClick={() => setAsked(true)}>
              {known ? t.uninstall : t.remove}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Confirm
        opened={asked}
        close={() => setAsked(false)}
        title={known ? t.uninstallAsk(name) : t.removeAsk(name)}
        action={known ? t.uninstall : t.remove}
        danger
        busy={removing.isPending}
        act={() => removing.mutate()}
      >
        {known ? t.uninstallWhy : t.removeWhy(skill.directory)}
      </Confirm>
    </>
  );
}
