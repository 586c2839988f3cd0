import { pause } from "@muster/backoff";
import type { KubeCalls, KubeObject } from "@muster/kube";
import { unlessGone } from "../../src/unless-gone.ts";

const FINALIZER = "karpenter.sh/termination";
const EVERY_MS = 20;

const NODE_CLAIMS = { apiVersion: "karpenter.sh/v1", plural: "nodeclaims" };

/** The fields of a claim that Karpenter reads and writes. */
export type PlayedNodeClaim = KubeObject & {
  readonly spec?: { readonly requirements?: readonly { readonly key: string; readonly values?: readonly string[] }[] };
  readonly status?: { readonly nodeName?: string; readonly conditions?: readonly { readonly type: string }[] };
};

export type Karpenter = AsyncDisposable & {
  /** Instance types that are short. */
  readonly short: Set<string>;
  /** Claims that are launched are registered with a node of this name; undefined: not yet. */
  join: (claim: PlayedNodeClaim) => Promise<string | undefined>;
  /** Before the claim of this node goes. */
  leave: (nodeName: string) => Promise<void>;
};

/** Plays Karpenter's part: launches claims, registers their nodes, gives up those that nothing can be launched for, and ends those that are deleted. */
export function playKarpenter(calls: KubeCalls): Karpenter {
  const stop = new AbortController();
  const karpenter: Omit<Karpenter, keyof AsyncDisposable> = {
    short: new Set(),
    join: ({ metadata }) => Promise.resolve(metadata?.name),
    leave: () => Promise.resolve(),
  };
  const playing = (async () => {
    while (!stop.signal.aborted) {
      const { items } = await calls.list<PlayedNodeClaim>(NODE_CLAIMS);
      for (const claim of items) await unlessGone(reconcile(calls, karpenter, claim));
      await pause(EVERY_MS, stop.signal);
    }
  })();
  return Object.assign(karpenter, {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await playing;
    },
  });
}

async function reconcile(
  calls: KubeCalls,
  karpenter: Omit<Karpenter, keyof AsyncDisposable>,
  claim: PlayedNodeClaim,
): Promise<void> {
  const { metadata, status, spec } = claim;
  const name = metadata?.name ?? "";
  if (metadata?.deletionTimestamp !== undefined) {
    if (status?.nodeName !== undefined) await karpenter.leave(status.nodeName);
    await calls.patch(NODE_CLAIMS, name, { kind: "merge", body: { metadata: { finalizers: [] } } });
    return;
  }
  const conditions = status?.conditions ?? [];
  if (!conditions.some(({ type }) => type === "Launched")) {
    const types = valuesOf(spec, "node.kubernetes.io/instance-type");
    if (types.some((type) => karpenter.short.has(type))) {
      await calls.delete(NODE_CLAIMS, name);
      return;
    }
    const [zone = "zone-a"] = valuesOf(spec, "topology.kubernetes.io/zone");
    const labels = { "topology.kubernetes.io/zone": zone };
    await calls.patch(NODE_CLAIMS, name, { kind: "merge", body: { metadata: { finalizers: [FINALIZER], labels } } });
    await patchStatus(calls, name, { providerID: `play://${name}`, conditions: [condition("Launched")] });
    return;
  }
  if (status?.nodeName !== undefined) return;
  const nodeName = await karpenter.join(claim);
  if (nodeName === undefined) return;
  await patchStatus(calls, name, { nodeName, conditions: [...conditions, condition("Registered")] });
}

function patchStatus(calls: KubeCalls, name: string, status: unknown): Promise<unknown> {
  return calls.patch(NODE_CLAIMS, name, { kind: "merge", body: { status } }, { subresource: "status" });
}

function condition(type: string) {
  return { type, status: "True", reason: type, message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

function valuesOf(spec: PlayedNodeClaim["spec"], key: string): readonly string[] {
  return spec?.requirements?.find((requirement) => requirement.key === key)?.values ?? [];
}
