import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import { expect, it } from "vitest";
import { makeReplica, makeSpec } from "../../test/samples.ts";
import type { RequestUnit } from "../domain/build-units.ts";
import type { JobManifest } from "../requests.ts";
import { explainStart } from "./explain-start.ts";

const MANIFEST: JobManifest = {
  apiVersion: "muster.dev/v1",
  kind: "Job",
  metadata: { name: "train", namespace: "team", labels: { a: "b" } },
  spec: {},
};
const SPEC = { ...makeSpec({ replicas: [makeReplica("worker", 2)] }), priority: 9 };
const TOO_SMALL = { code: "POOL_CAPACITY", text: "pool pool-a has 1 machines at most" };

async function start(choice: QueueChoice, spec = SPEC) {
  const asked: (readonly [unit: RequestUnit, priority: number])[] = [];
  const chosen: unknown[] = [];
  const because = await explainStart(
    {
      machines: {
        check: (...request) => {
          asked.push(request);
          return Promise.resolve(TOO_SMALL);
        },
      },
      queues: {
        choose: (...request) => {
          chosen.push(request);
          return choice;
        },
      },
    },
    MANIFEST,
    spec,
  );
  return {
    because,
    chosen,
    asked: asked.map(([{ needs, queue }, priority]) => ({ of: needs.length, queue, priority })),
  };
}

it("asks the ledger for the gang of the job, in its queue and with the priority that the queue permits", async () => {
  expect(await start({ kind: "queue", name: "night", maxPriority: 5 })).toEqual({
    because: TOO_SMALL,
    chosen: [[{ a: "b" }, "team"]],
    asked: [{ of: 2, queue: "night", priority: 5 }],
  });
  expect((await start({ kind: "none" })).asked).toEqual([{ of: 2, queue: undefined, priority: 9 }]);
});

it("asks nothing for a job without a usable queue, and for a suspended job", async () => {
  expect(await start({ kind: "unknown", message: "no queue serves it" })).toMatchObject({
    because: { code: "QUEUE_UNKNOWN", text: "no queue serves it" },
    asked: [],
  });
  expect(await start({ kind: "none" }, { ...SPEC, suspend: true })).toMatchObject({ because: undefined, asked: [] });
});
