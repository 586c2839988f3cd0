import { faultOf } from "@muster/faults";
import { STATUS_TIMEOUT_MS } from "../adapters/asking.ts";
import { farmCalls } from "../adapters/farm-calls.ts";
import { leaseCalls } from "../adapters/lease-calls.ts";
import { scalerDump } from "../adapters/node-calls.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildChecks, buildDoctorTable, isHealthy, type Observations } from "../domain/build-doctor-report.ts";
import type { SeenEngine } from "../domain/build-lease-checks.ts";
import type { Seen } from "../domain/check.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { describeTrouble } from "../domain/describe-trouble.ts";
import { enginesOf } from "../domain/lease-engine.ts";
import type { Lease } from "../domain/lease.ts";
import { print, type Format } from "./output.ts";

/** `muster doctor`: checks everything that a session needs, and says what to do about each problem. */
export async function doctor(cli: Cli, format: Format): Promise<ExitCode> {
  const checks = buildChecks(await observe(cli), cli.now());
  print(cli.io, format, { table: (style) => buildDoctorTable(checks, style), data: () => checks });
  if (isHealthy(checks)) return EXIT.ok;
  return checks.some(({ check, status }) => check === "nats" && status === "failed") ? EXIT.unreachable : EXIT.failed;
}

async function observe(cli: Cli): Promise<Observations> {
  const connection = cli.connection();
  let connected: Connected;
  try {
    connected = await cli.connect();
  } catch (error) {
    const unknown = { trouble: "not connected" };
    const nats = { trouble: reason(error) };
    return {
      connection,
      nats,
      replicas: unknown,
      watcher: unknown,
      pools: unknown,
      jobReservations: unknown,
      scaler: unknown,
      dropped: unknown,
      kinds: unknown,
      unreadableSets: unknown,
      leases: unknown,
      unreadableLeases: unknown,
      jobs: unknown,
    };
  }
  await using bus = connected;
  const [nats, replicas, watcher, pools, jobReservations, scaler, dropped, kinds, unreadableSets, ...ofWork] =
    await Promise.all([
      see(bus.nats()),
      see(bus.replicas()),
      see(bus.services.watcherStatus()),
      see(bus.services.poolsNow()),
      see(bus.services.jobReservationsNow()),
      scalerDump(bus.link),
      see(bus.dropped()),
      see(bus.services.kindsTrouble()),
      see(farmCalls(bus.link).unreadable()),
      see(leasesSeen(bus)),
      see(leaseCalls(bus.link, STATUS_TIMEOUT_MS).unreadable()),
      see(bus.services.jobs()),
    ]);
  const [leases, unreadableLeases, jobs] = ofWork;
  const work = { unreadableSets, leases, unreadableLeases, jobs };
  return {
    connection,
    nats,
    replicas,
    watcher,
    pools,
    jobReservations,
    scaler,
    dropped,
    kinds,
    ...work,
  };
}

/** Every engine with a replica; leases without a problem are only counted. */
async function leasesSeen({ link, replicas }: Connected): Promise<SeenEngine[]> {
  const calls = leaseCalls(link, STATUS_TIMEOUT_MS);
  const all = (phase: string): Promise<Lease[]> => calls.list({ user: undefined, type: undefined, phase });
  const [engines, listed] = await Promise.all([
    replicas().then(enginesOf),
    see(Promise.all([all("ORDERED"), all("PROVISIONING"), all("DECOMMISSIONING")])),
  ]);
  const [ordered, provisioning, ending] = "trouble" in listed ? [[], [], []] : listed.value;
  const isOf =
    (engine: string) =>
    ({ order }: Lease): boolean =>
      order.engine === engine;
  return Promise.all(
    engines.map(async (engine) => {
      const [load, cleanup] = await Promise.all([see(calls.load(engine)), see(calls.cleanupState(engine))]);
      const waiting = [...ordered, ...provisioning].filter(isOf(engine));
      const unlisted = "trouble" in listed ? listed.trouble : "";
      return { engine, load, cleanup, waiting, ending: ending.filter(isOf(engine)), unlisted };
    }),
  );
}

async function see<Value>(value: Promise<Value>): Promise<Seen<Value>> {
  try {
    return { value: await value };
  } catch (error) {
    return { trouble: reason(error) };
  }
}

/** The command shows expected failures; it rethrows a defect. */
function reason(error: unknown): string {
  const fault = faultOf(error);
  if (fault !== undefined) return describeTrouble(fault);
  if (error instanceof CommandError) return error.message;
  throw error;
}
