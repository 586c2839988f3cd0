import { JOB_SET, BATCH_JOB, QUEUED_POD, type BatchKind } from "./batch-kinds.ts";
import type { Owner } from "./owners.ts";
import { shortHash } from "./short-hash.ts";

const MAX_NAMESPACE_PART = 16;
const MAX_NAME_PART = 24;
const MAX_UID_PART = 12;
/** An id of a JobSet ends with a part of its uid and a hash of its namespace, for which its name leaves room. */
const JOB_SET_PARTS = { maxName: 14, uid: 8 };

/** The owner id of work of Kubernetes: a DNS label, unique over namespaces because it ends with a part of the uid. */
export function batchOwnerId(
  kind: BatchKind,
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string },
): string {
  const isSet = kind === JOB_SET;
  const end = isSet ? `${uidPart(uid).slice(0, JOB_SET_PARTS.uid)}${shortHash(namespace)}` : uidPart(uid);
  const maxName = isSet ? JOB_SET_PARTS.maxName : MAX_NAME_PART;
  return [labelPart(namespace, MAX_NAMESPACE_PART), labelPart(name, maxName), end].join("-");
}

/**
 * Whether a pod may belong to this owner. A Job controls its pods, and a queued pod is its own owner. Jobs control the pods of a JobSet: the namespace of the
 * pod must be that of the JobSet.
 */
export function isBatchOwner(
  { kind, id }: Owner,
  pod: { readonly namespace: string; readonly uid: string; readonly jobUid: string },
): boolean {
  switch (kind) {
    case BATCH_JOB:
      return endsWithUid(id, pod.jobUid);
    case JOB_SET:
      return pod.jobUid !== "" && id.endsWith(shortHash(pod.namespace));
    case QUEUED_POD:
      return endsWithUid(id, pod.uid);
    default:
      return false;
  }
}

function endsWithUid(id: string, uid: string): boolean {
  const part = uidPart(uid);
  return part !== "" && id.endsWith(`-${part}`);
}

/** A part of a DNS label: without the separator of parts of owners, and without `-` at its ends. */
function labelPart(text: string, max: number): string {
  return text
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, max)
    .replace(/-+$/, "");
}

function uidPart(uid: string): string {
  return uid.replaceAll(/[^a-z0-9]/g, "").slice(0, MAX_UID_PART);
}
