/** Bring a skill in. */
import { Button, FileButton, Stack } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { uploadArchive } from "@/api/installing";
import { useText } from "@/i18n";
import { ErrorState } from "@/parts/ErrorState";
import { Page } from "@/parts/Page";

import { install } from "./words";

export function InstallPage() {
  const t = useText(install);
  const cache = useQueryClient();
  const installing = useMutation({ mutationFn: uploadArchive, onSuccess: () => cache.invalidateQueries() });
  return (
    <Page title={t.title} lead={t.lead} width="text">
      <Stack align="flex-start">
        <FileButton onChange={(file) => file && installing.mutate(file)} accept=".zip,.skill,.tar.gz,.tgz,.tar">
          {(props) => (
            <Button {...props} loading={installing.isPending}>
              {t.archive}
            </Button>
          )}
        </FileButton>
        {installing.error && <ErrorState error={installing.error} />}
        {installing.data?.definitions.map(({ skillId, name, currentVersion }) => (
          <Link key={skillId} to="/skills/$id" params={{ id: `installed:${skillId}` }}>
            {t.installed(name, currentVersion ?? "")}
          </Link>
        ))}
      </Stack>
    </Page>
  );
}
