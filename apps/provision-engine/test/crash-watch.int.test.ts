import { makeKubeCalls, loadKube, type KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { openCrashWatch } from "../src/adapters/crash-watch.ts";
import { KINDS } from "../src/types/object-kinds.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildSliceNamespaceName } from "../src/types/kubernetes.ts";
import { buildLeaseLabels } from "../src/types/lease-names.ts";
import { EMBEDDED } from "./api-servers.ts";
import { LONG } from "./engine-world.ts";

it("ignores pods in a slice that claim exits or deletions of another lease", async () => {
  await using server = await EMBEDDED.start();
  const config = loadKube(server.kubeconfig);
  await using calls = makeKubeCalls(config);
  const slice = buildSliceNamespaceName("7-1");
  await calls.create<KubeObject>(KINDS.namespace, { metadata: { name: slice } });
  const woken: string[] = [];
  await using watch = openCrashWatch(config, "default", (error) => expect.fail(String(error)));
  watch.onExit((lease) => woken.push(`exit ${lease}`));
  watch.onGone((lease) => woken.push(`gone ${lease}`));
  const finishedAt = new Date().toISOString();
  const lastState = { terminated: { exitCode: 3, reason: "Error", startedAt: finishedAt, finishedAt } };
  const container = { name: "main", image: "i", imageID: "", ready: false, restartCount: 1, lastState };
  const body = { status: { phase: "Running", containerStatuses: [container] } };
  const exits = async (namespace: string, id: string): Promise<void> => {
    const name = `lease-${id}`;
    const spec = { containers: [{ name: "main", image: "node" }] };
    const lease = makeLeaseRecord({ order: { id } });
    const pods = { ...KINDS.pod, namespace };
    await calls.create<KubeObject>(pods, { metadata: { name, labels: buildLeaseLabels(lease) }, spec } as KubeObject);
    await calls.patch(pods, name, { kind: "merge", body }, { subresource: "status" });
  };
  const vanishes = (namespace: string, id: string): Promise<void> =>
    calls.delete({ ...KINDS.pod, namespace }, `lease-${id}`, { gracePeriodSeconds: 0 });
  const sees = (what: string): Promise<boolean> => until(what, () => Promise.resolve(woken.includes(what)), LONG);
  await exits(slice, "1-1");
  await exits("default", "1-2");
  await sees("exit 1-2");
  await vanishes(slice, "1-1");
  await vanishes("default", "1-2");
  await sees("gone 1-2");
  expect(woken).toEqual(["exit 1-2", "gone 1-2"]);
}, 300_000);
