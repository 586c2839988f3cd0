import { KubeConfig } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import type { Logger } from "@muster/service";
import { expect, it } from "vitest";
import { readConfig } from "../config.ts";
import { buildOwnerId } from "../domain/build-units.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { buildOwnerReference } from "../domain/ownership.ts";
import { openWorld, listOwners, readBudget } from "./world.ts";

it("ends cleanly in a replica that never reached the API server and in which no client waits", async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", note);
  const kube = new KubeConfig();
  kube.loadFromClusterAndUser(
    { name: "none", server: "http://127.0.0.1:9", skipTLSVerify: false },
    { name: "anonymous" },
  );
  // The test does not check warnings.
  const logger = { warn: () => undefined } as unknown as Logger;
  const world = openWorld(kube, { config: readConfig({}), logger });
  expect(world.isComplete()).toBe(false);
  await world[Symbol.asyncDispose]();
  // Node reports unhandled rejections at the end of the turn.
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

it.each<[title: string, spec: Parameters<typeof readBudget>[0], seen: ReturnType<typeof readBudget>]>([
  ["its minimum", { minAvailable: 2, selector: { matchLabels: { job: "a" } } }, 2],
  ["its minimum, even 0", { minAvailable: 0, selector: { matchLabels: { job: "a" } } }, 0],
  ["edited if it selects other pods", { minAvailable: 0, selector: { matchLabels: { job: "b" } } }, "edited"],
  ["edited if it has no minimum", { maxUnavailable: 1, selector: { matchLabels: { job: "a" } } }, "edited"],
  ["edited if its minimum is a percentage", { minAvailable: "50%", selector: { matchLabels: { job: "a" } } }, "edited"],
  ["edited if its spec is missing", undefined, "edited"],
])("a budget is read as %s", (_title, spec, seen) => {
  expect(readBudget(spec, { job: "a" })).toBe(seen);
});

const JOB_OF_TEAM = { namespace: "team-a", name: "train", uid: "0a1b2c3d-4e5f-6789-abcd-ef0123456789" };
const OWNER = buildOwnerId(JOB_OF_TEAM);

it.each<[title: string, namespace: string, uid: string, expected: readonly string[]]>([
  ["in the namespace of the controller, with any controller", "default", "", [OWNER]],
  ["in another namespace, if the job controls it", "team-a", JOB_OF_TEAM.uid, [OWNER]],
  ["not in another namespace, if nothing controls it", "team-a", "", []],
  ["not in another namespace, if another job controls it", "team-a", "1a1b2c3d-4e5f-6789-abcd-ef0123456789", []],
])("a pod counts for the owner in its labels %s", (_title, namespace, uid, expected) => {
  const controller = buildOwnerReference(JOB_KIND, { ...JOB_OF_TEAM, uid });
  const metadata = { namespace, labels: { [labels.owner]: OWNER } };
  const pod = { metadata: { ...metadata, ...(uid !== "" && { ownerReferences: [controller] }) } };
  expect(listOwners(pod, "default")).toEqual(expected);
});
