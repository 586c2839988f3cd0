import type { Outage } from "@muster/chaos/observed";
import type { Random } from "@muster/chaos/random";
import { drawClockOffsetMs } from "./clocks.ts";
import { endReplica, type Replica } from "./replicas/replica.ts";
import type { InterruptibleInformers } from "./replicas/watcher.ts";
import { interruptWatches } from "./sim-bucket.ts";
import { CALM, countFault, type Dependency } from "./fault-risks.ts";
import { listWatchedBuckets, type World } from "./world.ts";

/** Injects faults that are drawn from the seed. */
export type Nemesis = {
  /** The running replicas; a new one replaces each dead one. */
  readonly replicas: readonly Replica[];
  readonly outages: Outage[];
  /** Ends all faults. */
  heal(): void;
};

export type NemesisOptions = {
  readonly random: Random;
  /** No fault starts after this time. */
  readonly untilMs: number;
  readonly informers: InterruptibleInformers;
  readonly start: (role: Replica["role"]) => Replica;
};

const EVERY_MS = { min: 200, max: 6000 };
/** Half of the freezes outlast locks and acknowledgement waits. */
export const FREEZE_MS = { min: 100, max: 30_000 };
const AWAY_MS = { min: 200, max: 20_000 };
const BACK_AFTER_MS = { min: 10, max: 5000 };
const MAX_NODES_OFF = 2;
/** Services have detected the loss of a machine and its consequences within this time. */
const MAX_DETECTION_MS = 300_000;

type Injection =
  | "kill"
  | "stop"
  | "freeze"
  | "set-clock"
  | "nats-away"
  | "api-away"
  | "cut-watch"
  | "cut-informer"
  | "node-off"
  | "node-gone";

const WEIGHTS: Readonly<Record<Injection, number>> = {
  kill: 5,
  stop: 2,
  freeze: 5,
  "set-clock": 1,
  "nats-away": 1,
  "api-away": 1,
  "cut-watch": 3,
  "cut-informer": 3,
  "node-off": 0.5,
  "node-gone": 0.5,
};

export function startNemesis(world: World, replicas: Replica[], options: NemesisOptions): Nemesis {
  const { time, weather } = world;
  const { random, untilMs } = options;
  const outages: Outage[] = [];
  const act = (): void => {
    if (time.nowMs >= untilMs) return;
    inject({ world, replicas, options, outages }, random.weighted(WEIGHTS));
    time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
  };
  time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
  return {
    replicas,
    outages,
    heal: () => {
      world.trace.note("nemesis", "heals everything");
      weather.risks = CALM;
      weather.away.clear();
      for (const { process } of replicas) process.frozenUntilMs = 0;
      for (const { name, off } of [...world.kubelets.machines.values()]) if (off) world.kubelets.turnOn(name);
    },
  };
}

type Stage = {
  readonly world: World;
  readonly replicas: Replica[];
  readonly options: NemesisOptions;
  readonly outages: Outage[];
};

function inject(stage: Stage, injection: Injection): void {
  const { world, replicas, options } = stage;
  const { random } = options;
  const [first, ...rest] = replicas.filter(({ process }) => process.alive);
  if (first === undefined) return;
  const victim = random.pick([first, ...rest]);
  world.trace.note(
    "nemesis",
    `${injection} ${["kill", "stop", "freeze", "set-clock"].includes(injection) ? victim.process.name : ""}`,
  );
  switch (injection) {
    case "kill":
      countFault(world.weather, "replica killed");
      endReplica(world, victim);
      replace(stage, victim);
      return;
    case "stop":
      countFault(world.weather, "replica stopped");
      world.time.as(victim.process, () => victim.stop.abort());
      replace(stage, victim);
      return;
    case "freeze":
      countFault(world.weather, "replica frozen");
      victim.process.frozenUntilMs = world.time.nowMs + random.integer(FREEZE_MS.min, FREEZE_MS.max);
      return;
    case "set-clock":
      countFault(world.weather, "clock set");
      victim.process.clockOffsetMs = drawClockOffsetMs(world.clocks);
      return;
    case "nats-away": {
      disconnect(stage, "nats");
      return;
    }
    case "api-away": {
      disconnect(stage, "api-server");
      return;
    }
    case "cut-watch": {
      cutWatch(stage, victim);
      return;
    }
    case "cut-informer":
      countFault(world.weather, "watch interrupted");
      for (const informer of options.informers.get(victim) ?? []) informer.interrupt();
      return;
    case "node-off":
    case "node-gone": {
      loseNode(stage, injection);
      return;
    }
  }
}

function replace({ world, replicas, options }: Stage, victim: Replica): void {
  const { random, start } = options;
  world.time.after(random.integer(BACK_AFTER_MS.min, BACK_AFTER_MS.max), undefined, () => {
    // A replica that is still stopping is killed when its successor starts, like at the end of the kubelet's grace period.
    if (victim.process.alive) endReplica(world, victim);
    replicas.splice(replicas.indexOf(victim), 1, start(victim.role));
  });
}

function disconnect({ world, options }: Stage, dependency: Dependency): void {
  const { weather, time } = world;
  weather.away.add(dependency);
  const ms = options.random.integer(AWAY_MS.min, AWAY_MS.max);
  time.after(ms, undefined, () => void weather.away.delete(dependency));
}

function cutWatch({ world, options }: Stage, victim: Replica): void {
  const { random } = options;
  countFault(world.weather, "watch interrupted");
  for (const bucket of listWatchedBuckets(world)) {
    const resume = interruptWatches(bucket, victim.process);
    if (resume !== undefined) world.time.after(random.integer(AWAY_MS.min, AWAY_MS.max), undefined, resume);
  }
}

function loseNode({ world, options, outages }: Stage, injection: "node-off" | "node-gone"): void {
  const { random } = options;
  const machines = [...world.kubelets.machines.values()];
  const [first, ...rest] = machines.filter(({ off }) => !off);
  if (first === undefined || machines.length - rest.length - 1 >= MAX_NODES_OFF) return;
  const { name } = random.pick([first, ...rest]);
  world.trace.note("nemesis", `${injection} ${name}`);
  countFault(world.weather, injection === "node-off" ? "node off" : "node gone");
  const forMs = random.integer(1000, 90_000);
  outages.push({ node: name, fromMs: world.time.nowMs, toMs: world.time.nowMs + forMs + MAX_DETECTION_MS });
  world.kubelets.turnOff(name);
  if (injection === "node-gone")
    world.time.after(random.integer(0, forMs), undefined, () => world.kubelets.forget(name));
  world.time.after(forMs, undefined, () => world.kubelets.turnOn(name));
}
