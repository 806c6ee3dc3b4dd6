/** One skill in the list: what it is, where it is from, why it fits, why it is not offered. */
import { Badge, Box, Group, Highlight, Text, Tooltip } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconAlertTriangle, IconPlayerPlay, IconUser } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Entry, SearchMatch } from "@/api/catalog";
import { skillUseQuery, verdictQuery } from "@/api/verdicts";
import { useText } from "@/i18n";
import { useMeaning } from "@/i18n/chinese";
import { useFormat } from "@/i18n/format";
import { visible } from "@/parts/foreign";
import { ScanBadge } from "@/parts/ScanBadge";
import { StarButton } from "@/parts/StarButton";
import { AsksBadge, StateBadge } from "@/parts/StateBadge";
import { WithdrawalBadge } from "@/parts/WithdrawalBadge";

import { skill as stateWords } from "../skill/words";
import classes from "./SkillRow.module.css";
import { catalog } from "./words";

/** Every row is so high, in pixels, whatever a skill says of itself; on a phone its marks have a line of their own. */
export const ROW = { plain: 116, fitting: 146 } as const;
export const NARROW_ROW = { plain: 144, fitting: 174 } as const;
export const NARROW = "(max-width: 36em)";

/** How high rows are in this window. */
export function useRowHeights(): Record<keyof typeof ROW, number> {
  return useMediaQuery(NARROW, false, { getInitialValueInEffect: false }) ? NARROW_ROW : ROW;
}

export function SkillRow({ skill, fit }: { skill: Entry; fit?: SearchMatch | undefined }) {
  const t = useText(catalog);
  const heights = useRowHeights();
  const matched = fit?.matched.map(reason) ?? [];
  const quiet = skill.status !== "ok";
  const description = visible(skill.description) || t.noDescription;
  const name = visible(skill.display_name ? `${skill.display_name} · ${skill.name}` : skill.name);
  return (
    <Box className={classes.place} style={{ height: fit ? heights.fitting : heights.plain }}>
      <Link to="/skills/$id" params={{ id: skill.id }} className={classes.row}>
        <Box className={classes.head}>
          <Text component="span" fw={600} truncate className={classes.name ?? ""} c={quiet ? "dimmed" : undefined}>
            <bdi>{name}</bdi>
          </Text>
          {skill.version && (
            <Text component="span" size="xs" c="dimmed" ff="monospace" className={classes.version ?? ""} truncate>
              <bdi>{visible(skill.version)}</bdi>
            </Text>
          )}
        </Box>
        <Marks skill={skill} fit={fit} />
        <Text size="sm" c="dimmed" lineClamp={quiet && skill.reason ? 1 : 2} className={classes.text ?? ""}>
          {matched.length > 0 ? (
            <Highlight component="span" inherit highlight={matched.map(({ written }) => written)} className={classes.marked ?? ""}>
              {description}
            </Highlight>
          ) : (
            <bdi>{description}</bdi>
          )}
        </Text>
        {quiet && skill.reason && (
          <Text size="sm" className={classes.reason ?? ""} truncate title={visible(skill.reason)}>
            <bdi>{visible(skill.reason)}</bdi>
          </Text>
        )}
        {fit && (
          <Group gap={6} className={classes.reasons ?? ""}>
            <Text size="xs" c="dimmed" component="span" visibleFrom="xs" className={classes.because ?? ""}>
              {t.because}
            </Text>
            {matched.map(({ field, written }) => (
              <Badge key={`${field}:${written}`} size="sm" variant="default" className={classes.word ?? ""}>
                <span className={classes.field}>{t.fields[field]}</span> <bdi>{visible(written)}</bdi>
              </Badge>
            ))}
          </Group>
        )}
        <Figures skill={skill} />
      </Link>
      <Box className={classes.star}>
        <StarButton id={skill.id} name={name} size={32} />
      </Box>
    </Box>
  );
}

/** What it costs in tokens, and how often and when last it was used. */
function Figures({ skill }: { skill: Entry }) {
  const t = useText(catalog);
  const format = useFormat();
  const use = useQuery(skillUseQuery(skill.id)).data;
  const [listed, loaded] = [format.number(skill.description_tokens), format.short(skill.instruction_tokens)];
  const uses = use && use.uses > 0 && t.uses(use.uses, format.number(use.uses));
  const last = use && (use.last_used ? t.lastUsed(format.dayAgo(use.last_used)) : t.neverUsed);
  return (
    <Box className={classes.figures}>
      <span title={t.tokensWhy}>
        <span className={classes.long}>{t.tokens(listed, loaded)}</span>
        <span className={classes.short}>{t.tokensShort(listed, loaded)}</span>
      </span>
      {last && (
        <span>
          {uses && <span className={classes.long}>{uses} · </span>}
          {last}
        </span>
      )}
    </Box>
  );
}

const FIELDS = ["name", "phrase", "keyword", "description", "text"] as const;

function reason(matched: string): { field: (typeof FIELDS)[number]; written: string } {
  const field = FIELDS.find((one) => matched.startsWith(`${one}:`)) ?? "text";
  return { field, written: matched.slice(matched.indexOf(":") + 1) };
}

function Confidence({ value, sure }: { value: number; sure: boolean }) {
  const t = useText(catalog);
  const format = useFormat();
  return (
    <Text component="span" size="xs" c="dimmed" className={classes.fit} title={sure ? undefined : t.unsureWhy}>
      {!sure && <span>{t.unsure}</span>}
      <span className={classes.bar} aria-hidden>
        <span style={{ width: `${Math.round(value * 100)}%` }} />
      </span>
      {format.share(value)}
    </Text>
  );
}

function Marks({ skill, fit }: { skill: Entry; fit: SearchMatch | undefined }) {
  const t = useText(catalog);
  const s = useText(stateWords);
  const meaning = useMeaning("rules");
  const verdict = useQuery(verdictQuery(skill.id)).data;
  const serious = skill.diagnostics.filter(({ severity }) => severity !== "info");
  return (
    <Group gap={6} className={classes.marks ?? ""}>
      {fit && <Confidence value={fit.confidence} sure={fit.sure} />}
      {skill.status !== "ok" && <StateBadge status={skill.status} />}
      {verdict?.withdrawal && <WithdrawalBadge withdrawal={verdict.withdrawal} why={verdict.withdrawn} />}
      {(verdict?.worst === "high" || verdict?.worst === "medium") && <ScanBadge worst={verdict.worst} findings={verdict.findings} />}
      {skill.requires_approval && <AsksBadge />}
      {serious.length > 0 && (
        <Tooltip label={serious.map(({ rule, message }) => meaning(rule)?.title ?? visible(message)).join(" · ")}>
          <Badge color="yellow" leftSection={<IconAlertTriangle size={13} />}>
            {t.findings(serious.length)}
          </Badge>
        </Tooltip>
      )}
      {skill.state !== "automatic" && skill.state !== "off" && (
        <Tooltip label={s.stateWhy[skill.state]}>
          <Badge color="pine">{s.skillStates[skill.state]}</Badge>
        </Tooltip>
      )}
      {!skill.model_invocable && (
        <Tooltip label={t.hiddenWhy}>
          <Badge color="gray" leftSection={<IconUser size={13} />}>
            {t.hidden}
          </Badge>
        </Tooltip>
      )}
      {skill.has_entry && (
        <Badge color="blue" leftSection={<IconPlayerPlay size={12} />}>
          {t.runs}
        </Badge>
      )}
      <Tooltip label={t.sourceWhy[skill.source]}>
        <Badge color="gray">{t.sources[skill.source]}</Badge>
      </Tooltip>
    </Group>
  );
}
