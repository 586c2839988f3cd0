import { expect, it } from "vitest";
import { LOG_LIMIT_MS, reportPreemptions } from "./report-preemptions.ts";

it("counts each time that a limit is reached, and logs each limit once per minute", () => {
  const logged: unknown[] = [];
  const counted: string[] = [];
  let nowMs = 0;
  const report = reportPreemptions(
    { preemption: ({ kind }) => counted.push(kind) },
    { warn: (fields: unknown) => logged.push(fields) },
    () => nowMs,
  );
  report({ kind: "planned", reason: "RECLAIM" });
  for (const atMs of [0, LOG_LIMIT_MS - 1, LOG_LIMIT_MS]) {
    nowMs = atMs;
    report({ kind: "limited", limit: "MAX_VICTIMS" });
  }
  report({ kind: "limited", limit: "MAX_BENEFICIARIES" });
  expect(counted).toEqual(["planned", "limited", "limited", "limited", "limited"]);
  expect(logged).toEqual([{ limit: "MAX_VICTIMS" }, { limit: "MAX_VICTIMS" }, { limit: "MAX_BENEFICIARIES" }]);
});
