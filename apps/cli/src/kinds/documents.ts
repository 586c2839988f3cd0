import { nearestName } from "@muster/documents";
import type { ReadDocument } from "../domain/read-document.ts";
import type { LeaseDocument } from "../domain/lease-document.ts";
import type { SetDocument } from "../domain/set-document.ts";
import type { Draft, Kind } from "./kind.ts";
import type { Kinds } from "./kinds.ts";
import { LEASE_DOCUMENTS } from "./lease.ts";
import { SET_DOCUMENTS } from "./replica-set.ts";
import type { DocumentRow } from "./resource.ts";

/** Work that a document asks for, and its kind. */
export type ReadWork = { readonly kind: Kind; readonly draft: Draft };

/** What `apply` creates or updates. */
export type ReadApplied = { readonly set: SetDocument } | { readonly lease: LeaseDocument };

/** Reads a document of `muster run`. */
export function readWork(kinds: Kinds, document: unknown): ReadDocument<ReadWork> {
  return readAs(document, workRows(kinds), [SET_DOCUMENTS, LEASE_DOCUMENTS]);
}

/** Reads a document of a replica set. */
export function readSet(kinds: Kinds, document: unknown): ReadDocument<SetDocument> {
  return readAs(document, [SET_DOCUMENTS], [...workRows(kinds), LEASE_DOCUMENTS], LEASE_DOCUMENTS.words);
}

/** Reads a document of a lease. */
export function readLease(kinds: Kinds, document: unknown): ReadDocument<LeaseDocument> {
  return readAs(document, [LEASE_DOCUMENTS], [...workRows(kinds), SET_DOCUMENTS]);
}

/** Reads a document of `muster apply`. */
export function readApplied(kinds: Kinds, document: unknown): ReadDocument<ReadApplied> {
  if (!LEASE_DOCUMENTS.words.some((word) => word === wordOf(document))) {
    const read = readSet(kinds, document);
    return read.ok ? { ok: true, value: { set: read.value } } : read;
  }
  const read = readLease(kinds, document);
  if (!read.ok) return read;
  if (read.value.id !== undefined) return { ok: true, value: { lease: read.value } };
  const message =
    "must have a name, NUMBER-NUMBER: without it each `apply` would be another lease, which is what `muster lease order -f FILE` makes";
  return { ok: false, findings: [{ path: ["metadata"], at: "value", message }] };
}

function workRows(kinds: Kinds): readonly [DocumentRow<ReadWork>, ...DocumentRow<ReadWork>[]] {
  const known = kinds.flatMap(({ documents }) => documents);
  const rowOf = (kind: Kind): DocumentRow<ReadWork> => ({
    words: kind.documents,
    elsewhere: (word) => `a ${word} runs to its end: use \`muster run FILE\``,
    read: (document) => {
      const read = kind.read(document, known);
      return read.ok ? { ok: true, value: { kind, draft: read.value } } : read;
    },
  });
  const [first, ...others] = kinds;
  return [rowOf(first), ...others.map(rowOf)];
}

/**
 * Reads a document by its `kind`. One without a kind is read as the first accepted kind, so that every problem in it is reported; of another kind only that
 * is reported. `further`: kinds that the command reads as well.
 */
function readAs<Value>(
  document: unknown,
  accepted: readonly [DocumentRow<Value>, ...DocumentRow<Value>[]],
  others: readonly DocumentRow[],
  further: readonly string[] = [],
): ReadDocument<Value> {
  const word = wordOf(document);
  const row = accepted.find(({ words }) => words.some((each) => each === word));
  if (row !== undefined || typeof word !== "string") return (row ?? accepted[0]).read(document);
  const other = others.find(({ words }) => words.includes(word));
  const known = [...accepted.flatMap(({ words }) => words), ...further];
  const message = other?.elsewhere(word) ?? describeUnknownKind(word, known);
  return { ok: false, findings: [{ path: ["kind"], at: "value", message }] };
}

/** Kinds of Kubeflow that Muster does not run. */
const NOT_RUN = ["MXJob", "XGBoostJob", "PaddleJob"];
/** Kinds of Kubernetes that users may confuse with a PinnedReplicaSet. */
const KUBERNETES = ["ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "ReplicationController"];

function describeUnknownKind(word: string, known: readonly string[]): string {
  const jobs = known.filter((each) => /.Job$/.test(each));
  if (NOT_RUN.includes(word) && jobs.length > 0)
    return `${word} is not run; of Kubeflow's kinds are ${jobs.join(", ")}`;
  const [set = ""] = SET_DOCUMENTS.words;
  if (KUBERNETES.includes(word) && known.includes(set))
    return `${word} is a kind of Kubernetes, for kubectl; Muster has ${set}`;
  const near = nearestName(word, known);
  return `"${word}" is no kind; ${near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`}`;
}

function wordOf(document: unknown): unknown {
  return typeof document === "object" && document !== null && "kind" in document ? document.kind : undefined;
}
