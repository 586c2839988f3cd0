import { Argument, InvalidArgumentError } from "commander";
import { CommandError } from "../command-error.ts";
import { nearestName } from "@muster/documents";
import { isRollWord, isSetWord } from "../domain/replica-set.ts";
import { EXIT } from "../domain/decide-exit.ts";

/** `job`, or as kubectl takes it, too: `job/training`. */
export type Resource = { readonly word: string; readonly name: string | undefined };

/** What other commands list, in the singular. */
const ELSEWHERE = new Map([
  ["node", "`muster nodes` lists the nodes that Muster makes, `kubectl get nodes` all of them."],
  ["event", "`muster events` lists what happened."],
  ["pod", "`kubectl get pods` lists pods, `muster describe` the components of a session or job."],
]);

/** The first word of a command; one of the words, alone or with a name after it. */
export function resourceArgument(description: string, words: readonly string[]): Argument {
  return new Argument("<resource>", description).choices(words).argParser((text): Resource => {
    const slash = text.indexOf("/");
    const word = slash < 0 ? text : text.slice(0, slash);
    if (!words.includes(word) && !isWordOf(words, word)) {
      const near = nearestName(word, words);
      const choices = words.filter((each) => !words.includes(`${each}s`)).join(", ");
      throw new InvalidArgumentError(
        ELSEWHERE.get(word.replace(/s$/, "")) ??
          (near === undefined ? `It is one of ${choices}.` : `Did you mean ${near}?`),
      );
    }
    const name = slash < 0 ? undefined : text.slice(slash + 1);
    if (name === "") throw new InvalidArgumentError(`The name is missing after "${word}/".`);
    return { word, name };
  });
}

/** Sets and rolling updates go by several names. */
function isWordOf(words: readonly string[], word: string): boolean {
  return (isSetWord(word) && words.some(isSetWord)) || (isRollWord(word) && words.some(isRollWord));
}

/** The name that stands with the kind, or after it. Throws CommandError when there are two. */
export function nameOf({ word, name }: Resource, second: string | undefined): string | undefined {
  if (name !== undefined && second !== undefined)
    throw new CommandError(EXIT.usage, `"${word}/${name}" has a name already: "${second}" is one too many`);
  return name ?? second;
}
