import type { V1Pod } from "@kubernetes/client-node";
import { unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { labels } from "@muster/proto";
import { useKey, type FoundObject, type InUse } from "../domain/plan-cleanup.ts";
import type { ObjectKind } from "./lease-objects.ts";
import { KINDS } from "./object-kinds.ts";

/** What in a cluster says that it is made for leases, by whomever. */
export type Leftovers = {
  /** All of it that can be listed. Kinds that cannot are told and left out. */
  find(signal: AbortSignal): Promise<readonly FoundObject[]>;
  inUse(signal: AbortSignal): Promise<InUse>;
  /** Removes this very object, and no later one of its name. */
  remove(object: FoundObject, signal: AbortSignal): Promise<void>;
};

/** What holds others goes after them. Pods go with what made them. */
const CLEANED: readonly ObjectKind[] = [
  KINDS.deployment,
  KINDS.statefulSet,
  KINDS.service,
  KINDS.secret,
  KINDS.volumeClaim,
  KINDS.namespace,
];
const SELECTOR = `${labels.managedBy}=muster,${labels.lease},${labels.leaseRun},${labels.leaseUser}`;

export function openLeftovers(calls: KubeCalls, failed: (kind: string, error: unknown) => void): Leftovers {
  return {
    find: async (signal) => {
      const found: FoundObject[] = [];
      for (const kind of CLEANED) {
        try {
          const query = { labelSelector: SELECTOR };
          const { items } = await calls.list<KubeObject>(kind, { query, signal });
          found.push(...items.map((each) => toFound(kind, each)));
        } catch (error) {
          signal.throwIfAborted();
          failed(kind.kind, error);
        }
      }
      return found;
    },
    inUse: async (signal) => {
      try {
        const { items } = await calls.list<V1Pod & KubeObject>(KINDS.pod, { signal });
        return new Set(items.flatMap(usedBy));
      } catch (error) {
        signal.throwIfAborted();
        failed(KINDS.pod.kind, error);
        return undefined;
      }
    },
    remove: async ({ kind, namespace, name, uid }, signal) => {
      const known = CLEANED.find((each) => each.kind === kind);
      if (known === undefined) return;
      const resource = { ...known, ...(namespace !== "" && { namespace }) };
      const propagationPolicy = known.hasMembers === true ? "Foreground" : "Background";
      const removal = calls.delete(resource, name, { propagationPolicy, preconditions: { uid }, signal });
      await unlessFault(removal, "not_found", "conflict");
    },
  };
}

function usedBy({ metadata, spec }: V1Pod): string[] {
  const namespace = metadata?.namespace ?? "";
  const claims = (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
  return [
    useKey(KINDS.namespace.kind, "", namespace),
    ...claims.map((claim) => useKey(KINDS.volumeClaim.kind, namespace, claim)),
  ];
}

function toFound({ kind }: ObjectKind, { metadata }: KubeObject): FoundObject {
  const id = metadata?.labels?.[labels.lease];
  const run = Number(metadata?.labels?.[labels.leaseRun]);
  return {
    kind,
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    lease: id !== undefined && Number.isSafeInteger(run) && run > 0 ? { id, run } : undefined,
    isGoing: metadata?.deletionTimestamp !== undefined,
  };
}
