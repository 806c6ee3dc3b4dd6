/** What waits for somebody's answer, and what was agreed to. */
import { queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import type { components } from "./schema";

export type PendingQuestion = components["schemas"]["PendingQuestion"];
export type Approval = components["schemas"]["ApprovalRecord"];
export type VersionToApprove = components["schemas"]["ListedApproval"];
export type Verdict = components["schemas"]["ApprovalVerdict"];

export const questionsQuery = () =>
  queryOptions({
    queryKey: ["approvals", "questions"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/approvals/questions", { signal })),
    refetchInterval: 2_000, // a run asks at any moment, and waits
  });

export const approvalsQuery = () =>
  queryOptions({
    queryKey: ["approvals", "kept"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/approvals", { signal })),
  });

/** The versions that wait until somebody approves exactly their content. */
export const waitingVersionsQuery = () =>
  queryOptions({
    queryKey: ["approvals", "versions"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/approvals/versions", { signal })),
  });

export const approveVersion = ({ skill_id, version, digest }: VersionToApprove, reason: string) =>
  answer(api.POST("/api/v1/skill-definitions/{id}/versions/{version}/approve", { params: { path: { id: skill_id, version } }, body: { digest, reason, undo: false } }));

export const answerQuestion = (id: string, body: Verdict) =>
  answer(api.POST("/api/v1/approvals/questions/{question_id}", { params: { path: { question_id: id } }, body }));

/** Approve a skill for the workspace, with exactly the content that was read. */
export const approveContent = (skill: string, digest: string) => answer(api.POST("/api/v1/approvals", { body: { skill, digest } }));

export const revokeApproval = (skill: string) => answer(api.DELETE("/api/v1/approvals", { params: { query: { skill } } }));
