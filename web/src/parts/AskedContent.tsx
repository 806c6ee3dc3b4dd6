/** The skill that a question is about: what it may do, its files, and exactly which content an answer is for. */
import { Box, Code, Group, List, Text } from "@mantine/core";
import { useState } from "react";

import { useText } from "@/i18n";

import classes from "./AskedContent.module.css";
import { FileTree, fileType } from "./FileTree";
import { AnchorLink } from "./links";
import { PowerSentence } from "./PowerSentence";
import { verdict } from "./verdictWords";

interface Props {
  skill: string;
  digest: string;
  files: readonly { name: string; size: number }[];
  may: readonly string[];
}

export function AskedContent({ skill, digest, files, may }: Props) {
  const t = useText(verdict);
  const [chosen, setChosen] = useState("");
  return (
    <>
      {may.length > 0 && (
        <Box>
          <Text size="xs" fw={600} c="dimmed" mb={2}>
            {t.may}
          </Text>
          <List size="sm" spacing={2}>
            {may.map((sentence) => (
              <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
                <PowerSentence>{sentence}</PowerSentence>
              </List.Item>
            ))}
          </List>
        </Box>
      )}
      {files.length > 0 && (
        <Box>
          <Text size="xs" fw={600} c="dimmed" mb={2}>
            {t.files(files.length)}
          </Text>
          <Box className={classes.files}>
            <FileTree label={t.files(files.length)} files={files.map(({ name, size }) => ({ name, size, type: fileType(name) }))} chosen={chosen} choose={setChosen} />
          </Box>
        </Box>
      )}
      <Group gap="md">
        <AnchorLink to="/skills/$id" params={{ id: skill }} search={{ tab: "files", ...(chosen ? { file: chosen } : {}) }} target="_blank" size="sm">
          {t.read}
        </AnchorLink>
        <Text size="xs" c="dimmed">
          {t.content} <Code title={digest}>{digest.slice(0, 19)}…</Code>
        </Text>
      </Group>
    </>
  );
}
