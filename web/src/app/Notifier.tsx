/** Shows notifications of the browser about what is new while a page is open, whichever it is; draws nothing. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { daysAgo } from "@/api/insights";
import { lookForUpdates } from "@/api/news";
import { failuresQuery } from "@/api/runs";
import { useMay } from "@/api/scopes";
import { useWaiting } from "@/api/waiting";
import { useText } from "@/i18n";
import { visible } from "@/parts/foreign";
import { type News, show } from "@/parts/notifying";

import { shell } from "./words";

const DAY_MS = 86_400_000;
const MOST = 3; // failures that are shown one by one

export default function Notifier({ wanted }: { wanted: readonly News[] }) {
  return (
    <>
      {wanted.includes("approvals") && <Approvals />}
      {wanted.includes("failures") && <Failures />}
      {wanted.includes("updates") && <Updates />}
    </>
  );
}

function Approvals() {
  const t = useText(shell);
  const navigate = useNavigate();
  const waiting = useWaiting();
  const before = useRef(waiting);
  useEffect(() => {
    if (waiting > before.current) show(t.notices.approvals, t.waiting(waiting), "skillyard-approvals", () => void navigate({ to: "/approvals" }));
    before.current = waiting;
  }, [waiting, t, navigate]);
  return null;
}

/** Of runs that end after the page was opened. */
function Failures() {
  const t = useText(shell);
  const navigate = useNavigate();
  const [since] = useState(() => daysAgo(1));
  const { data } = useQuery(failuresQuery(since));
  const seen = useRef<Set<string>>(undefined);
  useEffect(() => {
    if (!data) return;
    const known = seen.current;
    const fresh = known ? data.failed.filter(({ run_id }) => !known.has(run_id)) : [];
    seen.current = new Set(data.failed.map(({ run_id }) => run_id));
    if (fresh.length > MOST) {
      show(t.notices.failures, t.notices.many(fresh.length), "skillyard-failures", () => void navigate({ to: "/runs", search: { state: "failed" } }));
      return;
    }
    for (const { run_id, skill_name, schedule } of fresh)
      show(t.notices.failures, visible(schedule ? `${schedule} · ${skill_name}` : skill_name), run_id, () => void navigate({ to: "/runs/$id", params: { id: run_id } }));
  }, [data, t, navigate]);
  return null;
}

/** Looked for once a day, by who may install. */
function Updates() {
  const t = useText(shell);
  const navigate = useNavigate();
  const { data } = useQuery({
    queryKey: ["updates"],
    queryFn: lookForUpdates,
    enabled: useMay("skills:write", false),
    staleTime: DAY_MS,
    refetchInterval: DAY_MS,
    retry: false,
  });
  useEffect(() => {
    const first = data?.[0];
    if (!first) return;
    const words = data.map(({ skill_id, available }) => visible(available ? `${skill_id} ${available}` : skill_id)).join(", ");
    show(t.notices.updates, words, "skillyard-updates", () => void navigate({ to: "/skills/$id", params: { id: `installed:${first.skill_id}` }, search: { tab: "versions" } }));
  }, [data, t, navigate]);
  return null;
}
