/** Bringing skills in: look first, then install, and follow it. */
import { useEffect, useState } from "react";

import { answer, api } from "./client";
import type { components } from "./schema";

export type Inspected = components["schemas"]["InspectedSkill"];
export type Operation = components["schemas"]["OperationDetail"];
type OperationStarted = components["schemas"]["OperationStarted"];
type InstallEvent = components["schemas"]["InstallEvent"];

/** An archive that was chosen, or an address. */
export type Origin = { archive: File } | { address: string };

/** The form that the server takes for an archive. */
function form(archive: File): FormData {
  const made = new FormData();
  made.set("file", archive);
  return made;
}

/** What a source holds; nothing is installed. */
export const inspect = (origin: Origin): Promise<Inspected[]> =>
  answer(
    "archive" in origin
      ? api.POST("/api/v1/skill-definitions/inspect", {
          body: { file: "" }, // the description says what it is on its way: the form below
          bodySerializer: () => form(origin.archive),
        })
      : api.POST("/api/v1/skill-definitions/inspect", { body: { address: origin.address, skills: [] } }),
  );

export interface InstallOrder {
  origin: Origin;
  /** The ids of the skills that are wanted. */
  skills: string[];
  /** The consent of each change that was agreed to. */
  consent: string[];
  force: boolean;
  acceptSigner: boolean;
  acceptSource: boolean;
  /** The rules of the scanner whose findings were accepted. */
  accept: string[];
}

/** Begin an install; it goes on in the server and is followed by its id. */
export async function beginInstall({ origin, skills, consent, force, acceptSigner, acceptSource, accept }: InstallOrder): Promise<string> {
  const query = { wait: false, force, accept_signer: acceptSigner, accept_source: acceptSource, accept, ...(consent.length > 0 ? { consent: consent.join(",") } : {}) };
  const begun = await answer<OperationStarted | object>(
    "archive" in origin
      ? api.POST("/api/v1/skill-definitions/upload-create", {
          params: { query: { ...query, skills } },
          body: { file: "" },
          bodySerializer: () => form(origin.archive),
        })
      : api.POST("/api/v1/skill-definitions/install/address", { params: { query }, body: { address: origin.address, skills } }),
  );
  return (begun as OperationStarted).operation_id;
}

/** The progress of an install; nothing until it has reported something. */
export function useOperation(id: string | undefined): Operation | undefined {
  const [operation, setOperation] = useState<Operation>();
  useEffect(() => {
    if (!id) return;
    const source = new EventSource(`/api/v1/skill-definitions/operations/${encodeURIComponent(id)}/events`);
    const take = ({ data }: MessageEvent<string>) => {
      const received = JSON.parse(data) as InstallEvent;
      setOperation(received.operation);
      if (received.event === "end") source.close();
    };
    for (const name of ["progress", "end"]) source.addEventListener(name, take);
    return () => source.close();
  }, [id]);
  return operation?.operation_id === id ? operation : undefined;
}
