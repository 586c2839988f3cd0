import { findNearestName } from "@muster/documents";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { JOBS } from "./job.ts";
import type { WorkKind } from "./kind.ts";
import { LEASE } from "./lease.ts";
import { NODE } from "./node.ts";
import { POOL } from "./pool.ts";
import { QUEUE } from "./queue.ts";
import { REPLICA_SET } from "./replica-set.ts";
import { RESERVATION } from "./reservation.ts";
import type { ResourceRow } from "./resource.ts";
import { ROLL } from "./roll.ts";
import { SESSION } from "./session.ts";
import { makeWorkResource } from "./work.ts";

/** The environment of the commands that are generic over the table. */
export type CommandLine = Cli & {
  readonly resources: Resources;
};

/** The known resources. The first, a kind of work, is the default where no kind is named. */
export type Resources = readonly [ResourceRow & Required<Pick<ResourceRow, "work">>, ...ResourceRow[]];

/** The rows of all resources, in the order of messages and help. To add one, see docs/checklists/new-resource.md. */
export const RESOURCES: Resources = [
  makeWorkResource(SESSION),
  ...JOBS.map(makeWorkResource),
  ...[REPLICA_SET, ROLL, LEASE, QUEUE, POOL, RESERVATION, NODE],
];

/** Returns the kinds of work. */
export function listWorkKinds([first, ...others]: Resources): readonly [WorkKind, ...WorkKind[]] {
  return [first.work, ...others.flatMap(({ work }) => work ?? [])];
}

/** The words of a resource, or of a kind of work. */
type Worded = Pick<ResourceRow, "noun" | "plural" | "aliases" | "checkName">;

/** Finds a resource by any of its words. */
export function findResource<Row extends Worded>(rows: readonly Row[], word: string): Row | undefined {
  const exact = rows.find(({ noun, plural }) => noun === word || plural === word);
  return exact ?? rows.find(({ noun, plural, aliases }) => aliases && isAmong([noun, plural, ...aliases], word));
}

function isAmong(words: readonly string[], word: string): boolean {
  const bare = (text: string): string => text.toLowerCase().replaceAll("-", "");
  return words.some((each) => bare(each) === bare(word));
}

/** Splits `KIND/NAME`; the word is empty if the text is only a name. */
export function splitTarget(text: string): { readonly word: string; readonly name: string } {
  const slash = text.indexOf("/");
  return slash < 0 ? { word: "", name: text } : { word: text.slice(0, slash), name: text.slice(slash + 1) };
}

/** Reads `NAME`, `KIND/NAME` or `KIND NAME`. Throws CommandError for a kind that does not exist and for an invalid name. */
export function findNamedResource<Row extends Worded>(
  resources: readonly [Row, ...Row[]],
  [first, second]: readonly [first: string, second?: string | undefined],
  fallback: Row = resources[0],
): { readonly resource: Row; readonly name: string } {
  const { word, name } = second === undefined ? splitTarget(first) : { word: first, name: second };
  const resource = word === "" && !first.includes("/") ? fallback : findResource(resources, word);
  if (resource === undefined) throw new CommandError(EXIT.usage, describeUnknownWord(resources, word, name));
  if (name === "") throw new CommandError(EXIT.usage, `the name is missing after "${word}/"`);
  return { resource, name: resource.checkName?.(name) ?? name };
}

/** Returns the name of an item of this resource, given as `NAME`, `KIND/NAME` or `KIND NAME`. Throws CommandError for another kind. */
export function getKindName(resource: ResourceRow, first: string, second?: string): string {
  const { word, name } = second === undefined ? splitTarget(first) : { word: first, name: second };
  if (word !== "" || first.includes("/")) {
    if (findResource([resource], word) === undefined)
      throw new CommandError(EXIT.usage, `"${word}" is no ${resource.noun}; did you mean ${resource.noun}/${name}?`);
    if (name === "") throw new CommandError(EXIT.usage, `the name is missing after "${word}/"`);
  }
  return resource.checkName?.(name) ?? name;
}

function describeUnknownWord(resources: readonly Worded[], word: string, name: string): string {
  const nouns = resources.map(({ noun }) => noun);
  const near = findNearestName(word, nouns);
  return `"${word}" is no kind; ${near === undefined ? `known are ${nouns.join(", ")}` : `did you mean "${near}/${name}"?`}`;
}
