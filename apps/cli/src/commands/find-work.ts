import { findFault } from "@muster/faults";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { decideExit, EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import type { WorkKind } from "../kinds/kind.ts";
import type { ResourceRow } from "../kinds/resource.ts";
import { findResource, findNamedResource, splitTarget, listWorkKinds, type CommandLine } from "../kinds/resources.ts";

/** The timeout for a kind whose service may be missing. */
const OTHER_KINDS_TIMEOUT_MS = 2000;

/** Finds the session or job that `NAME` or `KIND/NAME` means. Throws a CommandError with an alternative for any other kind. */
export function readWorkTarget(
  { resources }: Pick<CommandLine, "resources">,
  text: string,
  command?: "cancel" | "logs",
): { readonly kind: WorkKind; readonly name: string } {
  const { word, name: id } = splitTarget(text);
  const refusal = word !== "" && command ? findResource(resources, word)?.refusals?.[command] : undefined;
  if (refusal !== undefined)
    throw new CommandError(EXIT.usage, refusal.message, { hint: refusal.hint(id === "" ? "ID" : id) });
  const { resource: kind, name } = findNamedResource(listWorkKinds(resources), [text]);
  return { kind, name };
}

/** Formats the argument with which a command finds work: the name alone suffices for the first kind. */
export function buildShortTarget(
  { resources: [first] }: CommandLine,
  { kind, name }: { readonly kind: string; readonly name: string },
): string {
  return kind === first.noun ? name : `${kind}/${name}`;
}

/** The item that `text` names; `name` is its name at its service. */
type Subject = {
  readonly resource: Pick<ResourceRow, "ask">;
  readonly text: string | undefined;
  readonly name: string | undefined;
};

/** Answers a question about one item. If its resource can, it translates a refusal into the terms of the command. */
export function askResource<Answer>(
  connected: ConnectedCli,
  resource: Pick<ResourceRow, "ask">,
  name: string,
  question: () => Promise<Answer>,
): Promise<Answer> {
  return resource.ask === undefined ? question() : resource.ask(connected, name, question);
}

/** Answers a question about the subject. A refusal includes a hint. */
export function askAbout<Answer>(
  cli: CommandLine,
  connected: ConnectedCli,
  { resource, text, name }: Subject,
  question: () => Promise<Answer>,
): Promise<Answer> {
  const isBareName = text !== undefined && name !== undefined && !text.includes("/");
  return isBareName
    ? askOfName(cli, connected, text, question)
    : askResource(connected, resource, name ?? "", question);
}

/**
 * Finds the kind of the one item with this name. Throws CommandError if several items have it, or none. A kind whose service does not answer counts as having
 * none: only the first kind must be installed.
 */
export async function findKindOfName(
  { resources }: CommandLine,
  { link }: ConnectedCli,
  name: string,
): Promise<WorkKind> {
  const kinds = listWorkKinds(resources);
  const answers = await nounsOf(kinds, link, name, kinds[0]);
  // `job` and the own kind of a job both find it with the same noun, so equal nouns count once.
  const nouns = [...new Set(answers.filter((noun) => noun !== undefined && noun !== NONE))];
  const [noun, ...others] = nouns;
  if (noun === undefined) {
    const asked = kinds.filter((kind, index) => answers[index] === NONE && kind.within === undefined);
    const other = findByForm(resources, name);
    throw new CommandError(EXIT.refused, `no ${asked.map((kind) => kind.noun).join(" and no ")} is called ${name}`, {
      hint:
        other === undefined
          ? `${asked.map(({ plural }) => `\`muster get ${plural}\``).join(" and ")} show those that exist`
          : `did you mean ${other}/${name}?`,
    });
  }
  if (others.length === 0) return findResource(kinds, noun) ?? kinds[0];
  throw new CommandError(
    EXIT.usage,
    `several items have the name ${name}: ${nouns.map((each) => `${each}/${name}`).join(", ")}`,
    { hint: "use one of these names" },
  );
}

/** Answers a question about work of the first kind. If only another kind has the name, the CommandError names that kind. */
async function askOfName<Answer>(
  { resources }: CommandLine,
  { link }: ConnectedCli,
  text: string,
  question: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await question();
  } catch (error) {
    const fault = findFault(error);
    if (fault?.code !== "not_found") throw error;
    const [, ...others] = listWorkKinds(resources);
    const answers = await nounsOf(others, link, text);
    const noun = answers.find((answer) => answer !== undefined && answer !== NONE);
    const meant = noun === undefined ? findByForm(resources, text) : (findResource(others, noun)?.noun ?? noun);
    if (meant === undefined) throw error;
    const hint = `did you mean ${meant}/${text}?`;
    throw new CommandError(decideExit(fault).code, describeTrouble(fault), { hint, cause: error });
  }
}

/** Returns the noun of the resource whose names have the form of this text. */
function findByForm(resources: readonly ResourceRow[], text: string): string | undefined {
  return resources.find(({ isNameOfForm }) => isNameOfForm?.(text) === true)?.noun;
}

const NONE = Symbol("none has this name");

/**
 * Returns, for each kind, the noun of its work with this name; undefined if the service of the kind does not answer. Only the `expected` kind gets the full
 * timeout, and its failure fails the command.
 */
function nounsOf(
  kinds: readonly WorkKind[],
  link: ConnectedCli["link"],
  name: string,
  expected?: WorkKind,
): Promise<(string | typeof NONE | undefined)[]> {
  const brief = { ...link, stop: AbortSignal.any([link.stop, AbortSignal.timeout(OTHER_KINDS_TIMEOUT_MS)]) };
  return Promise.all(
    kinds.map(async (kind) => {
      try {
        return (await kind.calls(kind === expected ? link : brief).get(name)).kind;
      } catch (error) {
        const fault = findFault(error);
        if (fault?.code === "not_found") return NONE;
        if (fault === undefined || kind === expected) throw error;
        return undefined;
      }
    }),
  );
}
