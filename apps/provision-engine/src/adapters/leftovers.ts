import type { V1Pod } from "@kubernetes/client-node";
import { listPages, unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import { findOtherInstallation } from "@muster/names";
import { labels } from "@muster/proto";
import { isSliceNamespace } from "../types/kubernetes.ts";
import { buildUseKey, type FoundObjects, type FoundObject } from "../domain/plan-cleanup.ts";
import { type ObjectKind, KINDS } from "../types/object-kinds.ts";
import type { Leftovers } from "../lead/cleaner.ts";

/** Containers come after their content. Pods are removed with their owners. */
const SWEPT_KINDS: readonly ObjectKind[] = [
  KINDS.deployment,
  KINDS.statefulSet,
  KINDS.service,
  KINDS.secret,
  KINDS.volumeClaim,
  KINDS.namespace,
];
const SELECTOR = `${labels.managedBy}=muster,${labels.lease},${labels.leaseRun},${labels.leaseUser}`;

/** `installation` is the id of this installation. */
export function openLeftovers(
  calls: KubeCalls,
  installation: string,
  failed: (kind: string, error: unknown) => void,
): Leftovers {
  return {
    find: async (signal, within) => {
      // All objects in a slice are removed with its namespace.
      if (within !== undefined && isSliceNamespace(within)) return { objects: [], unlisted: [] };
      const kinds = within === undefined ? SWEPT_KINDS : SWEPT_KINDS.filter((each) => each !== KINDS.namespace);
      const listed = await Promise.all(
        kinds.map(async (kind): Promise<FoundObjects> => {
          try {
            const query = { labelSelector: SELECTOR };
            const objects: FoundObject[] = [];
            for await (const page of listPages<KubeObject>(calls, inNamespace(kind, within), { query, signal })) {
              const believed = page.filter(({ metadata }) => !isSliceNamespace(metadata?.namespace ?? ""));
              objects.push(...believed.map((each) => toFound(kind, each, installation)));
            }
            return { objects, unlisted: [] };
          } catch (error) {
            signal.throwIfAborted();
            failed(kind.kind, error);
            return { objects: [], unlisted: [kind.kind] };
          }
        }),
      );
      return {
        objects: listed.flatMap(({ objects }) => objects),
        unlisted: listed.flatMap(({ unlisted }) => unlisted),
      };
    },
    inUse: async (signal, within) => {
      try {
        const used = new Set<string>();
        for await (const claims of listPages<KubeObject>(calls, inNamespace(KINDS.volumeClaim, within), { signal }))
          for (const claim of claims) if (!isOfLease(claim)) used.add(namespaceKey(claim));
        for await (const pods of listPages<V1Pod & KubeObject>(calls, inNamespace(KINDS.pod, within), { signal }))
          for (const key of pods.flatMap(usedKeys)) used.add(key);
        return used;
      } catch (error) {
        signal.throwIfAborted();
        failed("what is used", error);
        return undefined;
      }
    },
    remove: async ({ kind, namespace, name, uid }, signal) => {
      const known = SWEPT_KINDS.find((each) => each.kind === kind);
      if (known === undefined) return;
      const resource = { ...known, ...(namespace !== "" && { namespace }) };
      const propagationPolicy = known.hasMembers === true ? "Foreground" : "Background";
      const removal = calls.delete(resource, name, { propagationPolicy, preconditions: { uid }, signal });
      await unlessFault(removal, "not_found", "conflict");
    },
  };
}

function inNamespace(kind: ObjectKind, within: string | undefined): ObjectKind & { readonly namespace?: string } {
  return within === undefined ? kind : { ...kind, namespace: within };
}

/** Applies the same condition as the selector. */
function isOfLease({ metadata }: KubeObject): boolean {
  const { [labels.managedBy]: by, ...others } = metadata?.labels ?? {};
  return by === "muster" && [labels.lease, labels.leaseRun, labels.leaseUser].every((each) => each in others);
}

function namespaceKey({ metadata }: KubeObject): string {
  return buildUseKey(KINDS.namespace.kind, "", metadata?.namespace ?? "");
}

function usedKeys(pod: V1Pod & KubeObject): string[] {
  const { metadata, spec } = pod;
  const namespace = metadata?.namespace ?? "";
  const claims = (spec?.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
  return [namespaceKey(pod), ...claims.map((claim) => buildUseKey(KINDS.volumeClaim.kind, namespace, claim))];
}

function toFound({ kind }: ObjectKind, { metadata }: KubeObject, installation: string): FoundObject {
  const id = metadata?.labels?.[labels.lease];
  const run = Number(metadata?.labels?.[labels.leaseRun]);
  return {
    kind,
    namespace: metadata?.namespace ?? "",
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    createdMs: metadata?.creationTimestamp && Date.parse(String(metadata.creationTimestamp)),
    lease: id !== undefined && Number.isSafeInteger(run) && run > 0 ? { id, run } : undefined,
    otherInstallation: findOtherInstallation(metadata?.labels?.[labels.installation], installation),
    isTerminating: metadata?.deletionTimestamp !== undefined,
  };
}
