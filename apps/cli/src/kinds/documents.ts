import { findNearestName } from "@muster/documents";
import type { ReadDocument } from "../domain/read-document.ts";
import { SET_KIND } from "../domain/set-document.ts";
import type { WorkDraft, WorkKind } from "./kind.ts";
import type { ApplyOperations, DocumentRow } from "./resource.ts";
import { listWorkKinds, type Resources } from "./resources.ts";

/** The work of a document, and its kind. */
export type ReadWork = { readonly kind: WorkKind; readonly draft: WorkDraft };

/** The object that `apply` creates or updates, and the operations on it. */
export type AppliedDocument = { readonly applying: ApplyOperations<unknown>; readonly value: unknown };

/** Reads a document of `muster run`. */
export function readWork(resources: Resources, document: unknown): ReadDocument<ReadWork> {
  return readAs(document, workRows(resources), documentRows(resources));
}

/** Reads a document of `muster apply`. */
export function readApplied(resources: Resources, document: unknown): ReadDocument<AppliedDocument> {
  const accepted = documentRows(resources).flatMap(({ applying, ...row }): DocumentRow<AppliedDocument>[] => {
    if (applying === undefined) return [];
    const read = applying.read ?? row.read;
    return [{ ...row, read: (given) => mapRead(read(given), (value) => ({ applying, value })) }];
  });
  const [first, ...others] = accepted;
  if (first === undefined) throw new Error("no resource has documents that can be applied");
  return readAs(document, [first, ...others], workRows(resources));
}

/** Reads a document of one resource. `further` lists kinds that the error names as known too. */
export function readOne<Value>(
  resources: Resources,
  row: DocumentRow<Value>,
  document: unknown,
  further: readonly string[] = [],
): ReadDocument<Value> {
  const others = documentRows(resources).filter(({ words }) => words !== row.words);
  return readAs(document, [row], [...workRows(resources), ...others], further);
}

function documentRows(resources: Resources): readonly DocumentRow[] {
  return resources.flatMap(({ documents }) => documents ?? []);
}

function workRows(resources: Resources): readonly [DocumentRow<ReadWork>, ...DocumentRow<ReadWork>[]] {
  const kinds = listWorkKinds(resources);
  const known = kinds.flatMap(({ documents }) => documents);
  const rowOf = (kind: WorkKind): DocumentRow<ReadWork> => ({
    words: kind.documents,
    elsewhere: (word) => `a ${word} runs to its end: use \`muster run FILE\``,
    read: (document) => mapRead(kind.read(document, known), (draft) => ({ kind, draft })),
  });
  const [first, ...others] = kinds;
  return [rowOf(first), ...others.map(rowOf)];
}

function mapRead<Value, Mapped>(read: ReadDocument<Value>, map: (value: Value) => Mapped): ReadDocument<Mapped> {
  return read.ok ? { ok: true, value: map(read.value) } : read;
}

/**
 * Reads a document by its `kind`. A document without one is read as the first accepted kind, to report all its problems; an unaccepted kind is its only
 * problem. `further` lists kinds that the command reads too.
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
    return `Muster does not run ${word}; of Kubeflow's kinds it runs ${jobs.join(", ")}`;
  if (KUBERNETES.includes(word) && known.includes(SET_KIND))
    return `${word} is a kind of Kubernetes, for kubectl; Muster has ${SET_KIND}`;
  const near = findNearestName(word, known);
  return `"${word}" is no kind; ${near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`}`;
}

function wordOf(document: unknown): unknown {
  return typeof document === "object" && document !== null && "kind" in document ? document.kind : undefined;
}
