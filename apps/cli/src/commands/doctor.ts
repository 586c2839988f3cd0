import { findFault } from "@muster/faults";
import { STATUS_TIMEOUT_MS } from "../adapters/read-pages.ts";
import { makeFarmCalls } from "../adapters/farm-calls.ts";
import { makeLeaseCalls } from "../adapters/lease-calls.ts";
import { readScalerDump } from "../adapters/node-calls.ts";
import type { Cli, ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import {
  buildChecks,
  buildDoctorTable,
  checkUnreachable,
  isHealthy,
  type Observations,
} from "../domain/build-doctor-report.ts";
import type { SeenEngine } from "../domain/build-lease-checks.ts";
import type { Check, ObservedValue } from "../domain/check.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { listEngines } from "../domain/lease-engine.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import { printForms, type Format } from "./output.ts";

/** `muster doctor`: checks everything that a session needs, and prints the next step for each problem. */
export async function runDoctor(cli: Cli, format: Format): Promise<ExitCode> {
  const checks = await check(cli);
  printForms(cli.io, format, { table: (style) => buildDoctorTable(checks, style), data: () => checks });
  if (isHealthy(checks)) return EXIT.ok;
  return checks.some(({ check, status }) => check === "nats" && status === "failed") ? EXIT.unreachable : EXIT.failed;
}

async function check(cli: Cli): Promise<Check[]> {
  const connection = await cli.natsConnection("`muster doctor`");
  const seen = await toObserved(cli.connect());
  if ("trouble" in seen) return [checkUnreachable(connection, seen.trouble)];
  await using bus = seen.value;
  return buildChecks({ connection, ...(await observe(bus)) }, cli.now());
}

type Observed = Omit<Observations, "connection">;

async function observe(bus: ConnectedCli): Promise<Observed> {
  const { services, link } = bus;
  const all = {
    nats: toObserved(bus.nats()),
    replicas: toObserved(bus.replicas()),
    watcher: toObserved(services.watcherStatus()),
    pools: toObserved(services.poolsNow()),
    queues: toObserved(services.queuesNow()),
    reservations: toObserved(services.reservationsNow()),
    jobReservations: toObserved(services.jobReservationsNow()),
    scaler: readScalerDump(link),
    dropped: toObserved(bus.dropped()),
    kinds: toObserved(services.kindsTrouble()),
    unreadableSets: toObserved(makeFarmCalls(link).unreadable()),
    leases: toObserved(readEngines(bus)),
    unreadableLeases: toObserved(makeLeaseCalls(link, STATUS_TIMEOUT_MS).unreadable()),
    jobs: toObserved(services.jobs()),
  } satisfies { readonly [Name in keyof Observed]: Promise<Observed[Name]> };
  const values = await Promise.all(Object.entries(all).map(async ([name, value]) => [name, await value] as const));
  // The cast is needed because the type of fromEntries loses the names of the keys.
  return Object.fromEntries(values) as Observed;
}

/** Reads every engine with a replica; leases without a problem are only counted. */
async function readEngines({ link, replicas }: ConnectedCli): Promise<SeenEngine[]> {
  const calls = makeLeaseCalls(link, STATUS_TIMEOUT_MS);
  const all = (phase: string): Promise<Lease[]> => calls.list({ user: undefined, type: undefined, phase });
  const [engines, listed] = await Promise.all([
    replicas().then(listEngines),
    toObserved(Promise.all([all("ORDERED"), all("PROVISIONING"), all("DECOMMISSIONING")])),
  ]);
  const [ordered, provisioning, ending] = "trouble" in listed ? [[], [], []] : listed.value;
  const isOf =
    (engine: string) =>
    ({ order }: Lease): boolean =>
      order.engine === engine;
  return Promise.all(
    engines.map(async (engine) => {
      const [load, cleanup] = await Promise.all([
        toObserved(calls.load(engine)),
        toObserved(calls.cleanupState(engine)),
      ]);
      const waiting = [...ordered, ...provisioning].filter(isOf(engine));
      const unlisted = "trouble" in listed ? listed.trouble : "";
      return { engine, load, cleanup, waiting, ending: ending.filter(isOf(engine)), unlisted };
    }),
  );
}

async function toObserved<Value>(value: Promise<Value>): Promise<ObservedValue<Value>> {
  try {
    return { value: await value };
  } catch (error) {
    return { trouble: reason(error) };
  }
}

/** The command shows expected failures; it rethrows a defect. */
function reason(error: unknown): string {
  const fault = findFault(error);
  if (fault !== undefined) return describeTrouble(fault);
  if (error instanceof CommandError) return error.message;
  throw error;
}
