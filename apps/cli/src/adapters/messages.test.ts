import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { toJobEvent } from "./messages.ts";
import { toExplanation } from "./reservation-messages.ts";

const { ExplainReservationReply } = muster.reservation.v1;

it("reads the code for a request without a fitting part", () => {
  const parts = [{ part: { requests: { cpu: 500 } }, requested: 2 }];
  const sent = ExplainReservationReply.encode({ pools: [{ pool: "p", requested: 2, parts }] }).finish();
  const [pool] = toExplanation(ExplainReservationReply.decode(sent)).pools;
  expect(pool?.parts).toMatchObject([{ requested: 2, fitting: 0 }]);
});

it.each<[title: string, times: { count: number; firstAtMs?: number }, description: string]>([
  ["the first occurrence without a count", { count: 1, firstAtMs: 400_000 }, "Job/train: runs"],
  [
    "a later occurrence with the time since the first",
    { count: 2, firstAtMs: 100_000 },
    "Job/train: runs (x2 over 5m00s)",
  ],
  ["a repeated event whose first time is unknown", { count: 3 }, "Job/train: runs (x3)"],
])("shows %s", (_, times, description) => {
  const event = { atMs: 400_000, type: "Normal", reason: "JobRunning", message: "runs", object: "Job/train", ...times };
  expect(toJobEvent(muster.job.v1.JobEvent.create(event))).toEqual({
    phase: "JobRunning",
    atMs: 400_000,
    description,
    reason: "",
  });
});
