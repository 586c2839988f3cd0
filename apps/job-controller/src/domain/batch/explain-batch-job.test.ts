import { expect, it } from "vitest";
import { explainBatchJob, type ObservedBatchJob } from "./explain-batch-job.ts";

const WAITING = { code: "WAITING_FOR_QUOTA", message: "team-a can get 0 now", components: ["pod-0"], pools: [] };
const PAUSE = { code: "READY_TIMEOUT", text: "its machines are requested again at 2026-01-01T00:00:00.000Z" };
const ADVICE = "correct what keeps its pods from being ready, or raise spec.readyTimeout of the queue";

function explain(more: Partial<ObservedBatchJob>): string {
  const job = { finished: false, queue: "team-a" };
  const { code, message, next } = explainBatchJob({
    ...{ job, machines: undefined, isPreempted: false, wait: undefined },
    ...more,
  });
  return [code, message, next].join("; ");
}

it.each<[title: string, Partial<ObservedBatchJob>, RegExp]>([
  ["the ledger's reason while it waits for machines", { machines: WAITING }, /^WAITING_FOR_QUOTA; team-a can get 0/],
  ["that its queue has admitted it", { machines: { ...WAITING, code: "" } }, /^ADMITTED; the queue team-a has/],
  ["that its machines are preempted", { machines: { ...WAITING, code: "" }, isPreempted: true }, /^PREEMPTED; /],
  ["that nothing has been requested yet", {}, /^NOT_TAKEN_YET; /],
  ["that it is over, whatever it waited for", { job: { finished: true, queue: "" }, wait: PAUSE }, /^FINISHED; /],
])("states %s", (_title, observed, expected) => {
  expect(explain(observed)).toMatch(expected);
});

it("states why work waits without a request in the ledger, until when, and the remedy", () => {
  expect(explain({ wait: PAUSE })).toBe(`READY_TIMEOUT; ${PAUSE.text}; ${ADVICE}`);
});
