import { LEASE_KIND, type LeaseDocument } from "../domain/lease-document.ts";
import { nearestName, type Finding } from "@muster/documents";
import { readLeaseDocument } from "../domain/read-lease-document.ts";
import { readSetDocument } from "../domain/read-set-document.ts";
import { SET_KIND, type SetDocument } from "../domain/set-document.ts";
import type { ReadDocument } from "../adapters/parse-documents.ts";
import { JOBS } from "./job.ts";
import type { Draft, Kind } from "./kind.ts";
import { SESSION } from "./session.ts";

/** Every kind that the command knows. The first is meant where none is named. */
export type Kinds = readonly [Kind, ...Kind[]];

export const KINDS: Kinds = [SESSION, ...JOBS];

/** The meaning of `NAME`, `KIND/NAME`, or of the plural of a kind: all of it. */
export type Target = { readonly kind: Kind; readonly name: string | undefined };

/** Undefined where the word before the slash is no kind. */
export function findTarget(kinds: Kinds, text: string): Target | undefined {
  const all = kinds.find(({ plural }) => plural === text);
  if (all !== undefined) return { kind: all, name: undefined };
  const slash = text.indexOf("/");
  if (slash < 0) return { kind: kinds[0], name: text };
  const kind = findKind(kinds, text.slice(0, slash));
  const name = text.slice(slash + 1);
  return kind === undefined || name === "" ? undefined : { kind, name };
}

/** By its noun or its plural. */
export function findKind(kinds: Kinds, word: string): Kind | undefined {
  return kinds.find(({ noun, plural }) => noun === word || plural === word);
}

/** The error for an unknown target. */
export function describeUnknownTarget(kinds: Kinds, text: string): string {
  const [word = "", name = ""] = text.split("/", 2);
  const nouns = kinds.map(({ noun }) => noun);
  if (nouns.includes(word)) return `the name is missing after "${word}/"`;
  const near = nearestName(word, nouns);
  return `"${word}" is no kind; ${near === undefined ? `known are ${nouns.join(", ")}` : `did you mean "${near}/${name}"?`}`;
}

/** Documents of other commands than `muster run`. */
const ELSEWHERE = new Map<string, string>([
  ["PinnedReplicaSet", "a PinnedReplicaSet is kept until it is deleted, and never over: use `muster apply -f FILE`"],
  [LEASE_KIND, "a Lease is signed with your key: use `muster lease order -f FILE`, or `muster apply -f FILE`"],
]);

/** Kinds of Kubeflow that Muster does not run. */
const NOT_RUN = ["MXJob", "XGBoostJob", "PaddleJob"];

/** Work that a document asks for, and its kind. */
export type ReadWork = { readonly kind: Kind; readonly draft: Draft };

/**
 * Reads a document by its `kind`. One without a kind is read as the first kind, so that every problem in it is reported; of an unknown kind only that is
 * reported.
 */
export function readWork(kinds: Kinds, document: unknown): ReadDocument<ReadWork> {
  const known = kinds.flatMap(({ documents }) => documents);
  const word = wordOf(document);
  const kind = kinds.find(({ documents }) => documents.some((each) => each === word));
  if (kind !== undefined || typeof word !== "string") {
    const meant = kind ?? kinds[0];
    const read = meant.read(document, known);
    return read.ok ? { ok: true, value: { kind: meant, draft: read.draft } } : read;
  }
  return refuseKind(ELSEWHERE.get(word) ?? describeUnknownKind(word, known));
}

function describeUnknownKind(word: string, known: readonly string[]): string {
  if (NOT_RUN.includes(word))
    return `${word} is not run; of Kubeflow's kinds are ${known.filter((each) => /.Job$/.test(each)).join(", ")}`;
  const near = nearestName(word, known);
  return `"${word}" is no kind; ${near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`}`;
}

/** Kinds of Kubernetes that users may confuse with a PinnedReplicaSet. */
const KUBERNETES = ["ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "ReplicationController"];

/** Reads a document as a replica set. One without a kind is read as one, too. */
export function readSet(kinds: Kinds, document: unknown): ReadDocument<SetDocument> {
  const word = wordOf(document);
  if (word === undefined || word === SET_KIND || typeof word !== "string") {
    const read = readSetDocument(document);
    return read.ok ? { ok: true, value: read.document } : read;
  }
  const work = kinds.find(({ documents }) => documents.includes(word));
  if (work !== undefined) return refuseKind(`a ${word} runs to its end: use \`muster run FILE\``);
  if (KUBERNETES.includes(word))
    return refuseKind(`${word} is a kind of Kubernetes, for kubectl; Muster has ${SET_KIND}`);
  return refuseKind(
    word === LEASE_KIND ? (ELSEWHERE.get(word) ?? "") : describeUnknownKind(word, [SET_KIND, LEASE_KIND]),
  );
}

/** Reads a document as a lease. One without a kind is read as one, too. */
export function readLease(kinds: Kinds, document: unknown): ReadDocument<LeaseDocument> {
  const word = wordOf(document);
  if (word === undefined || word === LEASE_KIND || typeof word !== "string") {
    const read = readLeaseDocument(document);
    return read.ok ? { ok: true, value: read.document } : read;
  }
  const work = kinds.find(({ documents }) => documents.includes(word));
  if (work !== undefined) return refuseKind(`a ${word} is run: use \`muster run FILE\``);
  if (word === SET_KIND) return refuseKind(ELSEWHERE.get(word) ?? "");
  return refuseKind(describeUnknownKind(word, [LEASE_KIND]));
}

/** What is applied: made, or made what its document says. */
export type ReadApplied = { readonly set: SetDocument } | { readonly lease: LeaseDocument };

/** Reads a document as what its `kind` says, of the kinds that are applied. One without a kind is read as a replica set. */
export function readApplied(kinds: Kinds, document: unknown): ReadDocument<ReadApplied> {
  if (wordOf(document) !== LEASE_KIND) {
    const read = readSet(kinds, document);
    return read.ok ? { ok: true, value: { set: read.value } } : read;
  }
  const read = readLease(kinds, document);
  if (!read.ok) return read;
  const { value: lease } = read;
  if (lease.id !== undefined) return { ok: true, value: { lease } };
  const message =
    "must have a name, NUMBER-NUMBER: without it each `apply` would be another lease, which is what `muster lease order -f FILE` makes";
  return { ok: false, findings: [{ path: ["metadata"], at: "value", message }] };
}

function wordOf(document: unknown): unknown {
  return typeof document === "object" && document !== null && "kind" in document ? document.kind : undefined;
}

function refuseKind(message: string): { readonly ok: false; readonly findings: readonly Finding[] } {
  return { ok: false, findings: [{ path: ["kind"], at: "value", message }] };
}
