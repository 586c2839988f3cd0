import { nearestName } from "@muster/documents";
import { JOBS } from "./job.ts";
import type { Kind } from "./kind.ts";
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
