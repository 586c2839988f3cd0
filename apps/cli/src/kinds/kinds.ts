import type { Kind, ReadDraft } from "./kind.ts";
import { nearestName } from "../domain/nearest-name.ts";
import { JOBS } from "./job.ts";
import { SESSION } from "./session.ts";

/** Every kind that the command knows. The first is meant where none is named. */
export type Kinds = readonly [Kind, ...Kind[]];

export const KINDS: Kinds = [SESSION, ...JOBS];

/** What is meant by `NAME`, `KIND/NAME`, or by the plural of a kind: all of it. */
export type Target = { readonly kind: Kind; readonly name: string | undefined };

/** Undefined where what stands before the slash is no kind. */
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

/** What to say of a target that is none. */
export function describeUnknownTarget(kinds: Kinds, text: string): string {
  const [word = "", name = ""] = text.split("/", 2);
  const nouns = kinds.map(({ noun }) => noun);
  if (nouns.includes(word)) return `the name is missing after "${word}/"`;
  const near = nearestName(word, nouns);
  return `"${word}" is no kind; ${near === undefined ? `known are ${nouns.join(", ")}` : `did you mean "${near}/${name}"?`}`;
}

/** Of Kubeflow, and read by nobody here. */
const NOT_RUN = ["MXJob", "XGBoostJob", "PaddleJob"];

/**
 * Reads a document as what its `kind` says, and the document's kind. One without a kind is read as the first kind, so that all that is wrong with it is told; of one with a kind that
 * is not known only that is.
 */
export function readDocument(kinds: Kinds, document: unknown): { readonly kind: Kind; readonly read: ReadDraft } {
  const known = kinds.flatMap(({ documents }) => documents);
  const word = typeof document === "object" && document !== null && "kind" in document ? document.kind : undefined;
  const kind = kinds.find(({ documents }) => documents.some((each) => each === word));
  if (kind !== undefined || typeof word !== "string") {
    const meant = kind ?? kinds[0];
    return { kind: meant, read: meant.read(document, known) };
  }
  const near = nearestName(word, known);
  const message = NOT_RUN.includes(word)
    ? `${word} is not run; of Kubeflow's kinds are ${known.filter((each) => /.Job$/.test(each)).join(", ")}`
    : `"${word}" is no kind; ${near === undefined ? `known are ${known.join(", ")}` : `did you mean "${near}"?`}`;
  return { kind: kinds[0], read: { ok: false, findings: [{ path: ["kind"], at: "value", message }] } };
}
