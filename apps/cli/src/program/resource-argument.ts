import { findNearestName } from "@muster/documents";
import { InvalidArgumentError } from "commander";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { ResourceRow } from "../kinds/resource.ts";
import { findResource, splitTarget } from "../kinds/resources.ts";
import { argument, type ArgumentRow } from "./command-row.ts";

/** A kind such as `job`, or with a name, as kubectl accepts it: `job/training`. */
export type ResourceArgument = {
  readonly word: string;
  readonly resource: ResourceRow;
  readonly name: string | undefined;
};

/** The resources that other commands list, in the singular. */
const ELSEWHERE = new Map([
  ["event", "`muster events` lists events."],
  ["pod", "`kubectl get pods` lists pods, `muster describe` the components of a session or job."],
]);

/** Declares the first argument of a command: a word of one of these resources, alone or with a name after a slash. Completion offers `words`. */
export function makeResourceArgument(
  description: string,
  resources: readonly ResourceRow[],
  words: readonly string[],
): ArgumentRow<ResourceArgument> {
  const listed = resources.filter(({ listedBy }) => listedBy === undefined);
  const parse = (text: string): ResourceArgument => {
    const { word, name } = text.includes("/") ? splitTarget(text) : { word: text, name: undefined };
    const resource = findResource(listed, word);
    if (resource === undefined) throw new InvalidArgumentError(describeUnknownWord(resources, words, word));
    if (name === "") throw new InvalidArgumentError(`The name is missing after "${word}/".`);
    return { word, resource, name: name === undefined ? name : nameOf(resource, name) };
  };
  return argument("<resource>", description, parse, words);
}

function describeUnknownWord(resources: readonly ResourceRow[], words: readonly string[], word: string): string {
  const elsewhere = findResource(resources, word)?.listedBy ?? ELSEWHERE.get(word.replace(/s$/, ""));
  if (elsewhere !== undefined) return elsewhere;
  const near = findNearestName(word, words);
  // If a noun and its plural are both words, the message lists only the plural.
  const choices = words.filter((each) => !words.includes(`${each}s`)).join(", ");
  return near === undefined ? `It is one of ${choices}.` : `Did you mean ${near}?`;
}

/** Returns the name in the argument, or the one after it. Throws CommandError if both are given. */
export function findNameAfter(
  { word, resource, name }: ResourceArgument,
  second: string | undefined,
): string | undefined {
  if (name !== undefined && second !== undefined)
    throw new CommandError(EXIT.usage, `"${word}/${name}" has a name already: "${second}" is one too many`);
  return name ?? (second === undefined ? second : nameOf(resource, second));
}

function nameOf({ checkName }: ResourceRow, text: string): string {
  return checkName?.(text) ?? text;
}

/** Returns words of these resources: the plurals first, each with its short name, then the nouns. */
export function listWords(resources: readonly ResourceRow[]): string[] {
  const listed = resources.filter(({ listedBy }) => listedBy === undefined);
  return [
    ...listed.flatMap(({ plural, shortName }) => [plural, ...(shortName === undefined ? [] : [shortName])]),
    ...listed.map(({ noun }) => noun),
  ];
}
