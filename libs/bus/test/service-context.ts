import type { ServiceConnection } from "../src/connect-service.ts";
import { readNatsAccess } from "../src/index.ts";

/** Reads the NATS access of a service from these variables. */
export function accessOf(variables: Readonly<Record<string, string>>): ReturnType<typeof readNatsAccess> {
  return readNatsAccess({ optional: (name) => variables[name], url: (name, fallback) => variables[name] ?? fallback });
}

/** Builds the context of `@muster/service`; `said` is its log, `missing` the NATS status of /readyz. */
export function contextOf(
  variables: Readonly<Record<string, string>>,
  signal: AbortSignal,
): { readonly context: ServiceConnection; readonly said: readonly string[]; missing(): string | undefined } {
  const said: string[] = [];
  const checks = new Map<string, () => string | undefined>();
  const log = (fields: object): void => {
    said.push(JSON.stringify(fields));
  };
  const context = {
    config: { nats: accessOf(variables) },
    logger: { warn: log, error: log },
    service: "watcher",
    instance: "watcher-1",
    natsReplicas: 1,
    requestRate: { perSecond: 1000, burst: 2000 },
    signal,
    alsoCheck: (name: string, check: () => string | undefined) => checks.set(name, check),
  };
  return { context, said, missing: () => checks.get("nats")?.() };
}
