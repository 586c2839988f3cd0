import type { JobPlan, SessionPlan, SetPlan } from "../adapters/messages.ts";

/** The answer of the services about a document, in lines for people. */
export type PlanAnswer = { readonly lines: readonly string[]; readonly isRefused: boolean };

/** Describes the plan of a document of any kind. */
export function describePlan({
  problems = [],
  warnings = [],
  outcome,
  session,
}: Partial<JobPlan & SetPlan & SessionPlan>): PlanAnswer {
  const isRefused = problems.length > 0;
  const lines = problems.map(({ field, reason }) => `${field}: ${reason}`);
  const verdict = outcome === undefined ? describeStart(session) : `it would be ${outcome}`;
  const notes = warnings.map((warning) => `note: ${warning}`);
  return { lines: [...lines, ...(isRefused ? [] : [verdict]), ...notes], isRefused };
}

function describeStart(session: SessionPlan["session"]): string {
  if (session === undefined) return "it can be submitted now";
  const { waitingCode, waitingBecause } = session;
  return waitingCode ? `it would wait: ${waitingCode}: ${waitingBecause}` : "its machines are free now";
}
