/** Ends a run that goes on. */
import { Button } from "@mantine/core";
import { IconBan } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { cancelRun, runQuery } from "@/api/runs";

import { notifyProblem } from "./notify";

export function StopRun({ id, label }: { id: string; label: string }) {
  const cache = useQueryClient();
  const stopping = useMutation({ mutationFn: () => cancelRun(id), onSuccess: (ended) => cache.setQueryData(runQuery(id).queryKey, ended), onError: notifyProblem });
  return (
    <Button size="xs" color="red" variant="light" leftSection={<IconBan size={15} />} loading={stopping.isPending} onClick={() => stopping.mutate()}>
      {label}
    </Button>
  );
}
