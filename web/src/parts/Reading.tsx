/** A text of a skill to be read: drawn, with a notice of what is not, or as a model reads it. */
import { Alert, Box, Button, Code, Group, SegmentedControl, Skeleton, Stack, Text } from "@mantine/core";
import { IconEyeOff } from "@tabler/icons-react";
import { lazy, type ReactNode, Suspense, useState } from "react";

import { fetched } from "@/api/parts";
import { useText } from "@/i18n";

import { visible } from "./foreign";
import classes from "./Reading.module.css";
import { reading } from "./readingWords";

const Markdown = lazy(() => fetched(import("./Markdown")));
const LISTED = 3;
const LONGEST = 300;

interface DrawnProps {
  text: string;
  picture?: ((path: string) => string) | undefined;
  open?: ((path: string) => void) | undefined;
  /** Show the whole text instead. */
  reveal: () => void;
}

/** Markdown as it is meant, and before it what a model reads and nobody sees. */
export function Drawn({ text, picture, open, reveal }: DrawnProps) {
  const t = useText(reading);
  const [hidden, setHidden] = useState<readonly string[]>([]);
  return (
    <>
      {hidden.length > 0 && (
        <Alert color="yellow" icon={<IconEyeOff size={20} />} title={t.hidden(hidden.length)} mb="lg">
          <Stack gap={6} align="flex-start">
            {hidden.slice(0, LISTED).map((part, index) => (
              <Code key={index} style={{ overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
                {visible(part.slice(0, LONGEST))}
                {part.length > LONGEST && "…"}
              </Code>
            ))}
            {hidden.length > LISTED && <Text size="sm">{t.more(hidden.length - LISTED)}</Text>}
            <Button size="compact-sm" variant="default" onClick={reveal}>
              {t.reveal}
            </Button>
          </Stack>
        </Alert>
      )}
      <Suspense fallback={<Skeleton h="max(420px, 80vh)" />}>
        <Markdown picture={picture} open={open} hides={setHidden}>
          {text}
        </Markdown>
      </Suspense>
    </>
  );
}

/** A text to its last letter, with what is invisible in it shown. */
export function Whole({ text }: { text: string }) {
  const t = useText(reading);
  return (
    <pre className={classes.whole} tabIndex={0} role="region" aria-label={t.label}>
      {visible(text)}
    </pre>
  );
}

interface ReadingProps extends Omit<DrawnProps, "reveal"> {
  /** The text as a model reads it. */
  model: ReactNode;
}

export function Reading({ model, ...drawn }: ReadingProps) {
  const t = useText(reading);
  const [as, setAs] = useState<"drawn" | "model">("drawn");
  return (
    <Box miw={0}>
      <Group justify="flex-end" mb="sm">
        <SegmentedControl
          size="xs"
          aria-label={t.how}
          value={as}
          onChange={setAs}
          data={[
            { value: "drawn", label: t.drawn },
            { value: "model", label: t.model },
          ]}
        />
      </Group>
      {as === "model" ? model : <Drawn {...drawn} reveal={() => setAs("model")} />}
    </Box>
  );
}
