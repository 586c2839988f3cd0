import { faultOf } from "@muster/faults";
import type { Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { decideExit, EXIT } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { isLeaseId, LEASE_NOUN } from "../domain/lease-document.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Resource } from "../kinds/resource.ts";
import { findResource, namedResource, splitTarget, worksOf, type CommandLine } from "../kinds/resources.ts";

/** A service that is not installed is asked no longer than this. */
const OTHER_KINDS_TIMEOUT_MS = 2000;

/** The session or job that `NAME` or `KIND/NAME` means. Throws CommandError for any other kind, with what to use instead. */
export function readWorkTarget(
  { resources }: Pick<CommandLine, "resources">,
  text: string,
  command?: "cancel" | "logs",
): { readonly kind: Kind; readonly name: string } {
  const { word, name: id } = splitTarget(text);
  const refusal = word !== "" && command ? findResource(resources, word)?.refusals?.[command] : undefined;
  if (refusal !== undefined)
    throw new CommandError(EXIT.usage, refusal.message, { hint: refusal.hint(id === "" ? "ID" : id) });
  const { resource: kind, name } = namedResource(worksOf(resources), [text]);
  return { kind, name };
}

/** The argument by which commands find work: the name alone is enough for the first kind. */
export function shortTarget(
  { resources: [first] }: CommandLine,
  { kind, name }: { readonly kind: string; readonly name: string },
): string {
  return kind === first.noun ? name : `${kind}/${name}`;
}

/** The item that `text` names; `name` is what its service knows it by. */
type Subject = {
  readonly resource: Pick<Resource, "ask">;
  readonly text: string | undefined;
  readonly name: string | undefined;
};

/** The answer to a question about one item; a refusal is put into the words of the command where its resource has such words. */
export function askOf<Answer>(
  connected: Connected,
  resource: Pick<Resource, "ask">,
  name: string,
  question: () => Promise<Answer>,
): Promise<Answer> {
  return resource.ask === undefined ? question() : resource.ask(connected, name, question);
}

/** The answer to a question about the subject. A refusal comes with a hint. */
export function askAbout<Answer>(
  cli: CommandLine,
  connected: Connected,
  { resource, text, name }: Subject,
  question: () => Promise<Answer>,
): Promise<Answer> {
  const isBareName = text !== undefined && name !== undefined && !text.includes("/");
  return isBareName ? askOfName(cli, connected, text, question) : askOf(connected, resource, name ?? "", question);
}

/**
 * The kind of the one item that has this name, of any kind. Throws CommandError when several have it, or none. A kind whose service does not answer counts
 * as having none: only the first kind is expected to be installed.
 */
export async function kindOfName(cli: CommandLine, { link }: Connected, name: string): Promise<Kind> {
  const kinds = worksOf(cli.resources);
  const [first] = kinds;
  const brief = withTimeout(link);
  const answers = await Promise.all(
    kinds.map((kind) => nounOf(kind, kind === first ? link : brief, name, { mayBeSilent: kind !== first })),
  );
  // The same job answers for jobs of any kind and for its own kind.
  const nouns = [...new Set(answers.filter((noun) => noun !== undefined && noun !== NONE))];
  const [noun, ...others] = nouns;
  if (noun === undefined) {
    const asked = kinds.filter((kind, index) => answers[index] === NONE && kind.within === undefined);
    throw new CommandError(EXIT.refused, `no ${asked.map((kind) => kind.noun).join(" and no ")} is called ${name}`, {
      hint: isLeaseId(name)
        ? `did you mean ${LEASE_NOUN}/${name}?`
        : `${asked.map(({ plural }) => `\`muster get ${plural}\``).join(" and ")} show those that exist`,
    });
  }
  if (others.length === 0) return findResource(kinds, noun) ?? first;
  throw new CommandError(
    EXIT.usage,
    `several have the name ${name}: ${nouns.map((each) => `${each}/${name}`).join(", ")}`,
    { hint: "name one with its kind" },
  );
}

/** The answer to a question about work of the first kind. Where that kind has no such name, and another one has, the CommandError names it. */
async function askOfName<Answer>(
  { resources }: CommandLine,
  { link }: Connected,
  text: string,
  question: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await question();
  } catch (error) {
    const fault = faultOf(error);
    if (fault?.code !== "not_found") throw error;
    const [, ...others] = worksOf(resources);
    const brief = withTimeout(link);
    const answers = await Promise.all(others.map((kind) => nounOf(kind, brief, text, { mayBeSilent: true })));
    const noun = answers.find((answer) => answer !== undefined && answer !== NONE);
    if (noun === undefined && !isLeaseId(text)) throw error;
    const hint = `did you mean ${noun === undefined ? LEASE_NOUN : (findResource(others, noun)?.noun ?? noun)}/${text}?`;
    throw new CommandError(decideExit(fault).code, describeTrouble(fault), { hint, cause: error });
  }
}

function withTimeout(link: Connected["link"]): Connected["link"] {
  return { ...link, stop: AbortSignal.any([link.stop, AbortSignal.timeout(OTHER_KINDS_TIMEOUT_MS)]) };
}

const NONE = Symbol("none has this name");

/** The noun of the work that has the name; undefined where the service of the kind does not answer, and may be silent. */
async function nounOf(
  kind: Kind,
  link: Connected["link"],
  name: string,
  { mayBeSilent }: { readonly mayBeSilent: boolean },
): Promise<string | typeof NONE | undefined> {
  try {
    return (await kind.calls(link).get(name)).kind;
  } catch (error) {
    const fault = faultOf(error);
    if (fault?.code === "not_found") return NONE;
    if (fault === undefined || !mayBeSilent) throw error;
    return undefined;
  }
}
