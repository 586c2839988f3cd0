import type { Connected } from "../cli.ts";
import type { Resource } from "../kinds/resource.ts";

/** The answer to a question about one item; a refusal is put into the words of the command where its resource has such words. */
export function askOf<Answer>(
  connected: Connected,
  resource: Pick<Resource, "ask">,
  name: string,
  question: () => Promise<Answer>,
): Promise<Answer> {
  return resource.ask === undefined ? question() : resource.ask(connected, name, question);
}
