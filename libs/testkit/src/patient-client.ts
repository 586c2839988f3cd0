type Options = { readonly timeoutMs?: number };
type Call = (request: object, options?: Options) => Promise<unknown>;

/** Longer than the pauses of a busy machine. A longer deadline would prevent the repetition of a write that was lost with its replica. */
const DEADLINE_MS = 30_000;

/** A client of the bus whose calls have this deadline if they state none: the default of five seconds is shorter than the pauses of a busy machine. */
export function makePatientClient<Client extends object>(client: Client): Client {
  const calls = Object.entries(client as Readonly<Record<string, Call>>).map(([name, call]) => [
    name,
    (request: object, options: Options = {}) => call(request, { timeoutMs: DEADLINE_MS, ...options }),
  ]);
  // The entries have the keys of the client, which Object.fromEntries cannot express.
  return Object.fromEntries(calls) as Client;
}
