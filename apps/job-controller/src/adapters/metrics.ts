import { metrics } from "@opentelemetry/api";
import type { News } from "../domain/plan-news.ts";

/** Counts the news of jobs by kind, once it is in their status: each exactly once, whichever replica wrote it. */
export function jobMetrics(): { readonly countNews: (kind: string, news: readonly News[]) => void } {
  const meter = metrics.getMeter("@muster/job-controller");
  const counters: Partial<Record<News["kind"], ReturnType<typeof meter.createCounter>>> = {
    Created: meter.createCounter("muster.job.created", { description: "Jobs that were accepted" }),
    Succeeded: meter.createCounter("muster.job.succeeded", { description: "Jobs that succeeded" }),
    Failed: meter.createCounter("muster.job.failed", { description: "Jobs that failed" }),
    Restarting: meter.createCounter("muster.job.restarted", { description: "Restarts of jobs, and of their members" }),
  };
  return {
    countNews: (kind, news) => {
      for (const { kind: type } of news) counters[type]?.add(1, { kind });
    },
  };
}
