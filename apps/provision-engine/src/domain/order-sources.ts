/** Names of where orders come from, as records have them. */
export const SOURCES = { service: "api", stream: "nats", controller: "http" } as const;

/** Whether a source shows its orders again, long after they were made: a controller lists all that it has at each start, and queues what nobody has taken for as long as it likes. */
export function listsAgain(source: string): boolean {
  return source === SOURCES.controller;
}
