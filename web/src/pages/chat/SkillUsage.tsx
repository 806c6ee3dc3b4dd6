/** The usage of skills in each turn: offered, loaded, read, run, and how it ended, with tokens and time for each. */
import { Anchor, Box, Skeleton, Text, ThemeIcon } from "@mantine/core";
import { IconBook2, IconCircleCheck, IconCircleX, IconFileText, IconGavel, IconPlayerPlay, IconTags, type Icon } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type ConversationDetail, trailQuery, type TrailStep } from "@/api/chat";
import { useText } from "@/i18n";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { AnchorLink } from "@/parts/links";
import { Loaded } from "@/parts/Loaded";
import { Empty } from "@/parts/Section";

import classes from "./Panel.module.css";
import { chat } from "./words";

const ICONS: Record<TrailStep["event"], Icon> = { offered: IconTags, loaded: IconBook2, read: IconFileText, run: IconPlayerPlay, ruled: IconGavel, outcome: IconCircleCheck };

export function SkillUsage({ conversation }: { conversation: ConversationDetail }) {
  const t = useText(chat);
  const query = useQuery(trailQuery(conversation.id));
  return (
    <Loaded query={query} skeleton={<Skeleton h={120} />}>
      {(steps) => {
        const turns = conversation.turns.filter(({ id }) => steps.some(({ turn }) => turn === id));
        return turns.length ? (
          <>
            {turns.map((turn) => (
              <Box key={turn.id} className={classes.turn} component="section" aria-label={t.turn(turn.number)}>
                <Text size="xs" fw={600} c="dimmed" truncate>
                  {t.turn(turn.number)} · <bdi>{visible(turn.request)}</bdi>
                </Text>
                <Steps steps={steps.filter((step) => step.turn === turn.id)} />
              </Box>
            ))}
          </>
        ) : (
          <Empty>{t.noTrail}</Empty>
        );
      }}
    </Loaded>
  );
}

const named = (skill: string | null) => visible((skill ?? "").replace(/^[\w-]+:/, ""));

function Steps({ steps }: { steps: readonly TrailStep[] }) {
  const offered = steps.filter(({ event }) => event === "offered");
  return (
    <ol className={classes.steps}>
      {offered.length > 0 && <Offered steps={offered} />}
      {steps
        .filter(({ event }) => event !== "offered")
        .map((step, index) => (
          <Step key={index} step={step} />
        ))}
    </ol>
  );
}

/** All that were offered in one line, which opens to their names. */
function Offered({ steps }: { steps: readonly TrailStep[] }) {
  const t = useText(chat);
  const format = useFormat();
  const [opened, setOpened] = useState(false);
  return (
    <li className={classes.step}>
      <Mark event="offered" ok />
      <div className={classes.what}>
        <Anchor component="button" type="button" size="sm" c="inherit" aria-expanded={opened} onClick={() => setOpened(!opened)}>
          {t.offered(steps.length)}
        </Anchor>
        {opened && (
          <Text size="xs" c="dimmed" component="div">
            {steps.map(({ skill }) => named(skill)).join(", ")}
          </Text>
        )}
      </div>
      <span className={classes.cost}>{t.tokens(format.number(steps.reduce((sum, { tokens }) => sum + tokens, 0)))}</span>
    </li>
  );
}

function Step({ step }: { step: TrailStep }) {
  const t = useText(chat);
  const format = useFormat();
  const { event, skill, detail, ok, tokens, duration_ms } = step;
  const shown = event === "outcome" ? (t.outcomes[detail ?? ""] ?? detail) : event === "run" ? null : detail;
  return (
    <li className={classes.step}>
      <Mark event={event} ok={ok} />
      <div className={classes.what}>
        {t.steps[event]}{" "}
        {skill && (
          <AnchorLink to="/skills/$id" params={{ id: skill }} size="sm">
            <bdi>{named(skill)}</bdi>
          </AnchorLink>
        )}
        {event === "run" && detail && (
          <>
            {" · "}
            <AnchorLink to="/runs/$id" params={{ id: detail }} size="sm">
              {t.openRun}
            </AnchorLink>
          </>
        )}
        {shown && (
          <Text size="xs" c="dimmed" component="div">
            <bdi>{visible(shown)}</bdi>
          </Text>
        )}
      </div>
      <span className={classes.cost}>
        {tokens > 0 && t.tokens(format.number(tokens))}
        {tokens > 0 && duration_ms > 0 && <br />}
        {duration_ms > 0 && format.duration(duration_ms)}
      </span>
    </li>
  );
}

function Mark({ event, ok }: { event: TrailStep["event"]; ok: boolean }) {
  const Icon = event === "outcome" && !ok ? IconCircleX : ICONS[event];
  return (
    <ThemeIcon size={22} radius="xl" variant="light" color={ok ? (event === "offered" ? "gray" : "pine") : "red"} aria-hidden>
      <Icon size={13} stroke={1.8} />
    </ThemeIcon>
  );
}
