/** What can be done with a skill as a whole. */
import { ActionIcon, Button, CopyButton, Menu } from "@mantine/core";
import { IconCheck, IconCopy, IconDots, IconEye, IconEyeOff, IconFolderOpen, IconMessages, IconPackageOff, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { deleteSkill, installedId, openingQuery, openSkillFolder, type SkillDetail, toggleSkill, uninstallSkill } from "@/api/skills";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { Confirm } from "@/parts/Confirm";
import { ButtonLink } from "@/parts/links";
import { notify, notifyProblem } from "@/parts/notify";
import { visible } from "@/parts/foreign";

import { useChoice } from "../chat/choice";
import { installCommand } from "./installCommand";
import { skill as table } from "./words";

const route = getRouteApi("/skills/$id");

export function Actions({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const { tab } = route.useSearch();
  const [, choose] = useChoice();
  const runs = useMay("runs:execute");
  const writes = useMay("skills:write");
  return (
    <>
      {runs && skill.run.possible && tab !== "run" && (
        <ButtonLink to="/skills/$id" params={{ id: skill.id }} search={{ tab: "run" }} leftSection={<IconPlayerPlay size={16} />}>
          {t.tabs.run}
        </ButtonLink>
      )}
      {runs && skill.status === "ok" && skill.model_invocable && (
        <ButtonLink to="/chat" variant="default" leftSection={<IconMessages size={16} />} onClick={() => choose({ how: "own", skills: [{ id: skill.id, name: skill.name }] })}>
          {t.tryChat}
        </ButtonLink>
      )}
      {writes && <Toggle skill={skill} />}
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

/** Copy the command that installs it; open the folder where the page is on the same machine; uninstall what was installed; delete what is the user's own. */
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
  const writes = useMay("skills:write");
  const removable = writes && (known !== undefined || skill.source === "user");
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="default" size={36} aria-label={t.doing}>
            <IconDots size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <CopyButton value={installCommand(skill)}>
            {({ copied, copy }) => (
              <Menu.Item closeMenuOnClick={false} leftSection={copied ? <IconCheck size={16} /> : <IconCopy size={16} />} onClick={copy}>
                {copied ? t.copied : t.copyInstall}
              </Menu.Item>
            )}
          </CopyButton>
          {here && writes && (
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
