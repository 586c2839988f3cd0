import { JOB_SET, BATCH_JOB, QUEUED_POD, type BatchKind } from "./batch-kinds.ts";
import { JOB, JOB_KINDS } from "./job-kinds.ts";
import { buildLabelPart } from "./label-part.ts";
import type { Owner } from "./owners.ts";
import { isSessionIn, SESSION } from "./session-owner.ts";
import { computeShortHash } from "./short-hash.ts";

const MAX_NAMESPACE_PART = 16;
const MAX_NAME_PART = 24;
const MAX_UID_PART = 12;
/** An id of a JobSet ends with a part of its uid and a hash of its namespace, for which its name leaves room. */
const JOB_SET_PARTS = { maxName: 14, uid: 8 };

/** The owner id of work of Kubernetes: a DNS label, unique over namespaces because it ends with a part of the uid. */
export function buildBatchOwnerId(
  kind: BatchKind,
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string },
): string {
  const isSet = kind === JOB_SET;
  const end = isSet ? `${uidPart(uid).slice(0, JOB_SET_PARTS.uid)}${computeShortHash(namespace)}` : uidPart(uid);
  const maxName = isSet ? JOB_SET_PARTS.maxName : MAX_NAME_PART;
  return [buildLabelPart(namespace, MAX_NAMESPACE_PART), buildLabelPart(name, maxName), end].join("-");
}

/** A pod of any namespace, with the object that controls it. */
type OwnedPod = {
  readonly namespace: string;
  readonly uid: string;
  readonly controller: { readonly apiVersion: string; readonly kind: string; readonly uid: string } | undefined;
};

/**
 * Whether a pod may belong to this owner. Jobs and batch Jobs control their pods, and a queued pod is its own owner. Batch Jobs control the pods of a JobSet:
 * the namespace of the pod must be that of the JobSet. No object controls the pods of a session: their namespace must be that of the session.
 */
export function canBeOwner(owner: Owner, { namespace, uid, controller }: OwnedPod): boolean {
  const { kind, id } = owner;
  const isOfJob = controller !== undefined && isJobKind(controller);
  const isOfBatchJob = controller?.kind === "Job" && parseGroup(controller) === "batch";
  switch (kind) {
    case JOB:
      return isOfJob && endsWithUid(id, controller.uid);
    case BATCH_JOB:
      return isOfBatchJob && endsWithUid(id, controller.uid);
    case JOB_SET:
      return isOfBatchJob && id.endsWith(computeShortHash(namespace));
    case QUEUED_POD:
      return endsWithUid(id, uid);
    case SESSION:
      return isSessionIn(owner, namespace);
    default:
      return false;
  }
}

function isJobKind(controller: { readonly apiVersion: string; readonly kind: string }): boolean {
  return JOB_KINDS.get(parseGroup(controller))?.includes(controller.kind) === true;
}

function parseGroup({ apiVersion }: { readonly apiVersion: string }): string {
  return apiVersion.split("/", 1)[0] ?? "";
}

function endsWithUid(id: string, uid: string): boolean {
  const part = uidPart(uid);
  return part !== "" && id.endsWith(`-${part}`);
}

function uidPart(uid: string): string {
  return uid.replaceAll(/[^a-z0-9]/g, "").slice(0, MAX_UID_PART);
}
