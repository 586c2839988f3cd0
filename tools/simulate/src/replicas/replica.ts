import type { Bus } from "@muster/bus";
import { drawClockOffsetMs } from "../clocks.ts";
import { makeSimBus } from "../sim-bus.ts";
import type { Process } from "../task-queue.ts";
import { listWatchedBuckets, type World } from "../world.ts";

export type Role = "session-controller" | "reservation-manager" | "watcher" | "provision-engine";

/** A running replica of a service. */
export type Replica = {
  readonly role: Role;
  readonly process: Process;
  /** Requests an orderly stop, like SIGTERM. */
  readonly stop: AbortController;
  /** Aborted when the process is dead; its connections are closed then. */
  readonly gone: AbortController;
  readonly bus: Bus;
};

/** The main function of a service; settles after an orderly stop. */
export type Main = (world: World, replica: Replica) => Promise<void>;

/** Starts a process. An error or an end without a stop is a defect. */
function startReplica(world: World, role: Role, name: string, main: Main): Replica {
  const clockOffsetMs = drawClockOffsetMs(world.clocks);
  const process: Process = { name, alive: true, frozenUntilMs: 0, clockOffsetMs };
  const gone = new AbortController();
  const replica = {
    role,
    process,
    stop: new AbortController(),
    gone,
    bus: makeSimBus(world.bus, process, gone.signal),
  };
  world.trace.note(name, `starts, its clock ${clockOffsetMs} ms ahead`);
  world.time.as(process, () => {
    main(world, replica).then(
      () => {
        if (!process.alive) return;
        world.trace.note(name, "has ended");
        endReplica(world, replica);
        if (!replica.stop.signal.aborted) world.defects.push(`${name} has ended without a stop`);
      },
      (error: unknown) => {
        if (!process.alive) return;
        world.defects.push(
          `${name} has ended with ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
        );
      },
    );
  });
  return replica;
}

/** Kills the process: its code stops, and its connections close. */
export function endReplica(world: World, { process, gone }: Replica): void {
  process.alive = false;
  world.time.as(undefined, () => gone.abort());
  for (const bucket of listWatchedBuckets(world))
    for (const watch of bucket.watches) if (watch.process === process) bucket.watches.delete(watch);
}

/** Starts the replicas of one simulation. */
export type Starter = {
  /** Starts a replica of a service, under a new name. */
  readonly start: (role: Role) => Replica;
  /** Aborts all signals at the end of a simulation. Node retains a combined signal and its listeners until one of its sources is aborted. */
  readonly endAll: () => void;
};

export function makeStarter(world: World, mains: Readonly<Partial<Record<Role, Main>>>): Starter {
  const counts = new Map<Role, number>();
  const started: Replica[] = [];
  return {
    start: (role) => {
      const main = mains[role];
      if (main === undefined) throw new Error(`the simulation has no ${role}`);
      const count = (counts.get(role) ?? 0) + 1;
      counts.set(role, count);
      const replica = startReplica(world, role, `${role}-${count}`, main);
      started.push(replica);
      return replica;
    },
    endAll: () => {
      for (const replica of started) {
        endReplica(world, replica);
        world.time.as(replica.process, () => replica.stop.abort());
      }
    },
  };
}
