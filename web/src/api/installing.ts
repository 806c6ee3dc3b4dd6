/** Bringing skills in. */
import { answer, api } from "./client";

/** An archive as the form that the server takes. */
function form({ file }: { file: unknown }): FormData {
  const made = new FormData();
  made.set("file", file as File);
  return made;
}

export const uploadArchive = (file: File) =>
  answer(
    api.POST("/api/v1/skill-definitions/upload-create", {
      body: { file: file as unknown as string }, // the description says what it is on the way: bytes
      bodySerializer: form,
    }),
  );
