/** Letting another version of a skill serve: asked first, and again about what refuses it. */
import { Button, Text } from "@mantine/core";
import { IconArrowBackUp } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { asProblem } from "@/api/problem";
import { canAgree, rollbackTo, type Version } from "@/api/versions";
import { useText } from "@/i18n";
import { Confirm } from "@/parts/Confirm";
import { visible } from "@/parts/foreign";
import { notify, notifyProblem } from "@/parts/notify";

import { versions as table } from "./versionWords";

/** A version as people call it: by the number that it declares. */
export const versionName = ({ version, declared_version }: Pick<Version, "version" | "declared_version">): string => visible(declared_version ?? version);

/** Whether a version can be made current: it is not, its files are there, and nobody has to approve it first. */
export const canServe = ({ current, removed, status, approval }: Version): boolean => !current && !removed && status !== "failed" && approval !== "waiting";

/** A button that lets a version serve, when who clicks it agrees; what refuses that is asked about. */
export function Serve({ id, version: chosen, label }: { id: string; version: Version; label?: string }) {
  const t = useText(table);
  const cache = useQueryClient();
  const [asked, setAsked] = useState(false);
  const { version } = chosen;
  const name = versionName(chosen);
  const going = useMutation({
    mutationFn: rollbackTo,
    onSuccess: async () => {
      setAsked(false);
      notify({ message: t.done(name) });
      await cache.invalidateQueries();
    },
    onError: (error, { agreed }) => {
      const { code } = asProblem(error);
      if (!canAgree(code) || agreed.includes(code)) {
        setAsked(false);
        notifyProblem(error);
      }
    },
  });
  const problem = going.error === null ? undefined : asProblem(going.error);
  const code = problem && canAgree(problem.code) ? problem.code : undefined;
  const agreed = [...(going.variables?.agreed ?? []), ...(code ? [code] : [])];
  return (
    <>
      <Button size={label ? "sm" : "compact-sm"} variant="default" leftSection={<IconArrowBackUp size={14} />} onClick={() => setAsked(true)}>
        {label ?? t.back}
      </Button>
      <Confirm
        opened={asked}
        close={() => {
          setAsked(false);
          going.reset();
        }}
        title={t.backAsk(name)}
        action={code ? t.forceDo : (label ?? t.back)}
        danger={code !== undefined}
        busy={going.isPending}
        act={() => going.mutate({ id, version, agreed })}
      >
        {code ? t.agree[code] : t.backWhy}
        {code && code !== "local_edits" && (
          <Text size="sm" mt="sm" style={{ overflowWrap: "anywhere" }}>
            <bdi>{visible(problem?.message ?? "")}</bdi>
          </Text>
        )}
      </Confirm>
    </>
  );
}
