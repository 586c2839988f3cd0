import type { Logger } from "@muster/service";
import { MAX_BENEFICIARIES, MAX_FIRST_PLACES, type PreemptionLimit } from "../domain/decisions/plan-preemptions.ts";
import { MAX_VICTIMS } from "../domain/decisions/find-victims.ts";
import type { PreemptionNews } from "../domain/follow-preemptions.ts";
import type { LedgerMetrics } from "./metrics.ts";

/** Interval between two log entries about the same limit. */
export const LOG_LIMIT_MS = 60_000;

const MEANING: Record<PreemptionLimit, string> = {
  MAX_BENEFICIARIES: `${MAX_BENEFICIARIES} requests already wait for preempted work; others preempt nothing until one of them has machines`,
  MAX_FIRST_PLACES: `the first ${MAX_FIRST_PLACES} of equal requests were all preempted before and preempt nothing; those behind them wait`,
  MAX_VICTIMS: `${MAX_VICTIMS} victims do not suffice for a request, and no larger set is searched`,
};

/** Counts the outcomes of preemptions, and logs the limits that they reach. */
export function reportPreemptions(
  metrics: Pick<LedgerMetrics, "preemption">,
  logger: Pick<Logger, "warn">,
  nowMs: () => number,
): (news: PreemptionNews) => void {
  const loggedAtMs = new Map<PreemptionLimit, number>();
  return (news) => {
    metrics.preemption(news);
    if (news.kind !== "limited") return;
    const { limit } = news;
    if (nowMs() - (loggedAtMs.get(limit) ?? Number.NEGATIVE_INFINITY) < LOG_LIMIT_MS) return;
    loggedAtMs.set(limit, nowMs());
    logger.warn({ limit }, `preemption reached a limit: ${MEANING[limit]}`);
  };
}
