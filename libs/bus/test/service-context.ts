import type { ServiceConnection } from "../src/connect-service.ts";
import { readNatsAccess } from "../src/index.ts";

/** How a service with these variables reaches NATS. */
export function accessOf(variables: Readonly<Record<string, string>>): ReturnType<typeof readNatsAccess> {
  return readNatsAccess({ optional: (name) => variables[name], url: (name, fallback) => variables[name] ?? fallback });
}

/** As `@muster/service` gives it; `said` is its log, `missing` what /readyz would say of NATS. */
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
