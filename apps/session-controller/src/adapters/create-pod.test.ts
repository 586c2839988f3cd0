import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { makeComponent, makeRecord } from "../../test/samples.ts";
import type { PodPolicy } from "../domain/build-pod.ts";
import type { SessionRecord } from "../domain/session.ts";
import { createPod } from "./create-pod.ts";
import type { PodCreation } from "./pods.ts";

const POLICY: PodPolicy = {
  namespace: "default",
  installation: "muster-1",
  poolLabel: "pool",
  resultFile: "result.json",
  imageDefault: "none",
  keys: {
    labels: {
      ownerKind: "kind",
      owner: "owner",
      ownerUid: "owner-uid",
      component: "component",
      componentKind: "component-kind",
      exclusive: "exclusive",
      managedBy: "managed-by",
      installation: "installation",
    },
    annotations: { mainContainer: "main-container", traceparent: "traceparent" },
    schedulingGates: { unconfirmed: "unconfirmed" },
  },
};
const STEP = {
  kind: "create-pod",
  component: makeComponent("server-0", "server"),
  pool: "workers",
  node: "workers-0",
  workers: [],
  because: "accepted",
} as const;
const UNCONFIRMED: PodCreation = { kind: "created", uid: "uid-1", node: "workers-0", confirmed: false };

/** Returns the calls, in order, of an executor of epoch 2 while the store contains this record; by default the executor may have lost the lead. */
async function calls(
  stored: SessionRecord | undefined,
  created: PodCreation,
  isHeld = false,
): Promise<{ asked: string[]; came: unknown }> {
  const asked: string[] = [];
  const note = <Answer>(text: string, answer: Answer): Promise<Answer> => {
    asked.push(text);
    return Promise.resolve(answer);
  };
  const came = await createPod(
    {
      podPolicy: POLICY,
      load: (name) => note(`load ${name}`, stored === undefined ? undefined : { record: stored, revision: 1 }),
      pods: {
        create: (_record, _component, manifest) => note(`create ${manifest.metadata.name}`, created),
        confirm: (pod, uid) => note(`confirm ${pod} ${uid}`, undefined),
      },
    },
    makeRecord({ epoch: 2 }),
    STEP,
    () => isHeld,
  ).catch((error: unknown) => findFault(error)?.code);
  return { asked, came };
}

const MADE = {
  kind: "outcome",
  outcome: { kind: "pod-created", component: "server-0", uid: "uid-1", node: "workers-0" },
};

it("confirms a pod after its creation, once the store shows that the session is still its own", async () => {
  expect(await calls(makeRecord({ epoch: 2 }), UNCONFIRMED)).toEqual({
    asked: ["create bench-server-0", "load bench", "confirm bench-server-0 uid-1"],
    came: MADE,
  });
});

it("reads no record while its process leads", async () => {
  const { asked, came } = await calls(undefined, UNCONFIRMED, true);
  expect([asked, came]).toEqual([["create bench-server-0", "confirm bench-server-0 uid-1"], MADE]);
});

it.each([
  ["another executor has the session", makeRecord({ epoch: 3 })],
  ["another session has the name", makeRecord({ epoch: 2, uid: "u-2" })],
  ["the session is gone", undefined],
])("leaves the pod unconfirmed when %s", async (_title, stored) => {
  expect(await calls(stored, UNCONFIRMED)).toEqual({ asked: ["create bench-server-0", "load bench"], came: MADE });
});

it("retries if the store answers with a record from before its take-over", async () => {
  expect((await calls(makeRecord({ epoch: 1 }), UNCONFIRMED)).came).toBe("unavailable");
});

it("makes no further calls for a pod that is confirmed already", async () => {
  const { asked, came } = await calls(undefined, { ...UNCONFIRMED, confirmed: true });
  expect([asked, came]).toEqual([["create bench-server-0"], MADE]);
});
