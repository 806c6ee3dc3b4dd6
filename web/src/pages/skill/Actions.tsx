/** What can be done with a skill as a whole. */
import { ActionIcon, Box, Button, CopyButton, Group, Menu, Text } from "@mantine/core";
import { IconCheck, IconChevronDown, IconCopy, IconDots, IconEye, IconEyeOff, IconFolderOpen, IconFolderPlus, IconMessages, IconPackageOff, IconPlayerPlay, IconRobot, IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import { deleteSkill, installedId, openingQuery, openSkillFolder, setSkillState, SKILL_STATES, type SkillDetail, type SkillState, uninstallSkill } from "@/api/skills";
import { useMay } from "@/api/scopes";
import { useText } from "@/i18n";
import { Confirm } from "@/parts/Confirm";
import { ButtonLink } from "@/parts/links";
import { notify, notifyProblem } from "@/parts/notify";
import { StarButton } from "@/parts/StarButton";
import { visible } from "@/parts/foreign";

import { useChoice } from "../chat/choice";
import { installCommand } from "./installCommand";
import { skill as table } from "./words";

const AddToAgent = lazy(() => fetched(import("./AddToAgent")));
const Collect = lazy(() => fetched(import("./Collect")));

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
      {writes && <State skill={skill} />}
      <Group gap={6} wrap="nowrap">
        <StarButton id={skill.id} name={visible(skill.display_name ?? skill.name)} size={36} variant="default" />
        <More skill={skill} />
      </Group>
    </>
  );
}

/** The state of a skill, and the other four. */
function State({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const switching = useMutation({
    mutationFn: (state: SkillState) => setSkillState({ skill: skill.id, state }),
    onSuccess: async ({ state }) => {
      await Promise.all([cache.invalidateQueries({ queryKey: ["skill"] }), cache.invalidateQueries({ queryKey: ["catalog"] })]);
      notify({ message: t.stateSaid[state] });
    },
    onError: notifyProblem,
  });
  if (skill.status !== "ok" && skill.status !== "disabled") return null;
  return (
    <Menu position="bottom-end" withinPortal width={320}>
      <Menu.Target>
        <Button
          variant="default"
          loading={switching.isPending}
          leftSection={skill.state === "off" ? <IconEyeOff size={16} /> : <IconEye size={16} />}
          rightSection={<IconChevronDown size={14} />}
          data-icon
          aria-label={t.stateIs(t.skillStates[skill.state])}
        >
          <Box component="span" visibleFrom="xs">
            {t.skillStates[skill.state]}
          </Box>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.RadioGroup value={skill.state}>
          {SKILL_STATES.map((state) => (
            <Menu.RadioItem key={state} value={state} checkIcon={<IconCheck size={16} />} closeMenuOnClick onChange={() => switching.mutate(state)}>
              <Text size="sm" fw={560}>
                {t.skillStates[state]}
              </Text>
              <Text size="xs" c="dimmed">
                {t.stateWhy[state]}
              </Text>
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}

/** Copy the command that installs it; open the folder where the page is on the same machine; uninstall what was installed; delete what is the user's own. */
function More({ skill }: { skill: SkillDetail }) {
  const t = useText(table);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [asked, setAsked] = useState(false);
  const [adding, setAdding] = useState(false);
  const [collecting, setCollecting] = useState(false);
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
          {writes && skill.status === "ok" && skill.model_invocable && (
            <Menu.Item leftSection={<IconRobot size={16} />} onClick={() => setAdding(true)}>
              {t.addToAgent}
            </Menu.Item>
          )}
          <Menu.Item leftSection={<IconFolderPlus size={16} />} onClick={() => setCollecting(true)}>
            {t.collect}
          </Menu.Item>
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
      <Suspense>{adding && <AddToAgent skill={skill} close={() => setAdding(false)} />}</Suspense>
      <Suspense>{collecting && <Collect skill={skill} close={() => setCollecting(false)} />}</Suspense>
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
