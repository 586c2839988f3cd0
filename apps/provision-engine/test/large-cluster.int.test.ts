import { makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeLeaseObjects } from "../src/adapters/lease-objects.ts";
import { type ObjectKind, KINDS } from "../src/types/object-kinds.ts";
import { withLeaseRights } from "../src/adapters/lease-rights.ts";
import { openLeftovers } from "../src/adapters/leftovers.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildUseKey } from "../src/domain/plan-cleanup.ts";
import { buildLeaseLabels } from "../src/types/lease-names.ts";
import { EMBEDDED } from "./api-servers.ts";

const NAMESPACE = "net";
/** Together larger than one answer of the API server may be. */
const PODS = 54;
const PADDING = "x".repeat(1_300_000);
const lease = makeLeaseRecord({ order: { id: "1-1" } });
const { signal } = new AbortController();
const cleanup = new AsyncDisposableStack();
let calls: KubeCalls;

beforeAll(async () => {
  const server = cleanup.use(await EMBEDDED.start());
  calls = cleanup.use(makeKubeCalls(loadKube(server.kubeconfig)));
  await calls.create<KubeObject>(KINDS.namespace, { metadata: { name: NAMESPACE, labels: buildLeaseLabels(lease) } });
  for (let at = 0; at < PODS; at++) {
    const containers = [{ name: "main", image: "node", env: [{ name: "PADDING", value: PADDING }] }];
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: `claim-${at}` } }];
    const pod = { metadata: { name: `pod-${at}` }, spec: { containers, volumes } };
    await calls.create({ ...KINDS.pod, namespace: NAMESPACE }, pod, { isAnswerUnread: true });
  }
}, 300_000);

afterAll(() => cleanup.disposeAsync());

const CLAIMS = Array.from({ length: PODS }, (_, at) => buildUseKey("PersistentVolumeClaim", NAMESPACE, `claim-${at}`));
const failures: unknown[] = [];
const leftoversOf = (of: KubeCalls) => openLeftovers(of, "muster-1", (_kind, error) => void failures.push(error));

it("finds every claim that pods use, however large the pods are together", async () => {
  const inUse = await leftoversOf(calls).inUse(signal);
  expect(failures).toEqual([]);
  expect(inUse).toEqual(new Set([...CLAIMS, buildUseKey("Namespace", "", NAMESPACE)]));
});

it("finds them also if it may list only in namespaces of leases", async () => {
  const refusal = { code: 403, body: { reason: "Forbidden", message: "pods is forbidden" }, headers: {} };
  const limited: KubeCalls = {
    ...calls,
    list: (resource, options) =>
      resource.namespace === undefined && resource.plural !== KINDS.namespace.plural
        ? Promise.reject(Object.assign(new Error("forbidden"), refusal))
        : calls.list(resource, options),
  };
  const inUse = await leftoversOf(withLeaseRights(limited, "default")).inUse(signal);
  expect(failures).toEqual([]);
  expect(inUse).toEqual(new Set([...CLAIMS, buildUseKey("Namespace", "", NAMESPACE)]));
});

it("keeps a namespace with pods, and shortens the grace period of pods in a terminating one", async () => {
  const objects = makeLeaseObjects(calls, "muster-1", { firstMs: 1, maxMs: 1, totalMs: 0 });
  const sparing: ObjectKind = { ...KINDS.namespace, keptBy: [KINDS.pod] };
  await expect(objects.remove(lease, { kinds: [sparing] }, signal)).rejects.toThrow("it holds Pod pod-0");
  const ending: ObjectKind = { ...KINDS.namespace, podGraceSeconds: 0 };
  await expect(objects.remove(lease, { kinds: [ending] }, signal)).rejects.toThrow("the removal of Namespace net");
  await objects.remove(lease, { kinds: [ending] }, signal).catch(() => undefined);
  expect((await calls.list({ ...KINDS.pod, namespace: NAMESPACE }, { query: { limit: 1 } })).items).toEqual([]);
});
