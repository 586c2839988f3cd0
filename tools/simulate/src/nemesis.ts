import type { Outage } from "@muster/chaos/observed";
import type { Random } from "@muster/chaos/random";
import { drawClockOffsetMs } from "./clocks.ts";
import { endReplica, type Replica } from "./replicas/replica.ts";
import type { Interruptible } from "./replicas/watcher.ts";
import { interruptWatches } from "./sim-bucket.ts";
import { CALM, countFault, type Dependency } from "./weather.ts";
import { watchedBuckets, type World } from "./world.ts";

/** Whoever makes things go wrong, from the seed. */
export type Nemesis = {
  /** The replicas that run now; a dead one is followed by a new one. */
  readonly replicas: readonly Replica[];
  readonly outages: Outage[];
  /** Everything is as it should be from now on. */
  heal(): void;
};

export type NemesisOptions = {
  readonly random: Random;
  /** Faults come between the start and this moment. */
  readonly untilMs: number;
  readonly informers: Interruptible;
  readonly start: (role: Replica["role"]) => Replica;
};

const EVERY_MS = { least: 200, most: 6000 };
/** Longer than locks and acknowledgement waits, in half of the cases. */
export const FREEZE_MS = { least: 100, most: 30_000 };
const AWAY_MS = { least: 200, most: 20_000 };
const BACK_AFTER_MS = { least: 10, most: 5000 };
const NODES_OFF_MOST = 2;
/** Services learn of the end of a machine, and what it means, within this time. */
const FELT_AFTER_MS = 300_000;

type Deed =
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

const WEIGHTS: Readonly<Record<Deed, number>> = {
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

export function unleash(world: World, replicas: Replica[], options: NemesisOptions): Nemesis {
  const { time, weather } = world;
  const { random, untilMs } = options;
  const outages: Outage[] = [];
  const act = (): void => {
    if (time.nowMs >= untilMs) return;
    doDeed({ world, replicas, options, outages }, random.weighted(WEIGHTS));
    time.after(random.integer(EVERY_MS.least, EVERY_MS.most), undefined, act);
  };
  time.after(random.integer(EVERY_MS.least, EVERY_MS.most), undefined, act);
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

function doDeed(stage: Stage, deed: Deed): void {
  const { world, replicas, options } = stage;
  const { random } = options;
  const [first, ...rest] = replicas.filter(({ process }) => process.alive);
  if (first === undefined) return;
  const victim = random.pick([first, ...rest]);
  world.trace.note(
    "nemesis",
    `${deed} ${["kill", "stop", "freeze", "set-clock"].includes(deed) ? victim.process.name : ""}`,
  );
  switch (deed) {
    case "kill":
      countFault(world.weather, "replica killed");
      endReplica(world, victim);
      follow(stage, victim);
      return;
    case "stop":
      countFault(world.weather, "replica stopped");
      world.time.as(victim.process, () => victim.stop.abort());
      follow(stage, victim);
      return;
    case "freeze":
      countFault(world.weather, "replica frozen");
      victim.process.frozenUntilMs = world.time.nowMs + random.integer(FREEZE_MS.least, FREEZE_MS.most);
      return;
    case "set-clock":
      countFault(world.weather, "clock set");
      victim.process.clockOffsetMs = drawClockOffsetMs(world.clocks);
      return;
    case "nats-away": {
      takeAway(stage, "nats");
      return;
    }
    case "api-away": {
      takeAway(stage, "api-server");
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
      loseNode(stage, deed);
      return;
    }
  }
}

function follow({ world, replicas, options }: Stage, victim: Replica): void {
  const { random, start } = options;
  world.time.after(random.integer(BACK_AFTER_MS.least, BACK_AFTER_MS.most), undefined, () => {
    // One that still stops is killed when its successor is there, as the kubelet's patience ends.
    if (victim.process.alive) endReplica(world, victim);
    replicas.splice(replicas.indexOf(victim), 1, start(victim.role));
  });
}

function takeAway({ world, options }: Stage, dependency: Dependency): void {
  const { weather, time } = world;
  weather.away.add(dependency);
  const ms = options.random.integer(AWAY_MS.least, AWAY_MS.most);
  time.after(ms, undefined, () => void weather.away.delete(dependency));
}

function cutWatch({ world, options }: Stage, victim: Replica): void {
  const { random } = options;
  countFault(world.weather, "watch interrupted");
  for (const bucket of watchedBuckets(world)) {
    const resume = interruptWatches(bucket, victim.process);
    if (resume !== undefined) world.time.after(random.integer(AWAY_MS.least, AWAY_MS.most), undefined, resume);
  }
}

function loseNode({ world, options, outages }: Stage, deed: "node-off" | "node-gone"): void {
  const { random } = options;
  const machines = [...world.kubelets.machines.values()];
  const [first, ...rest] = machines.filter(({ off }) => !off);
  if (first === undefined || machines.length - rest.length - 1 >= NODES_OFF_MOST) return;
  const { name } = random.pick([first, ...rest]);
  world.trace.note("nemesis", `${deed} ${name}`);
  countFault(world.weather, deed === "node-off" ? "node off" : "node gone");
  const forMs = random.integer(1000, 90_000);
  outages.push({ node: name, fromMs: world.time.nowMs, toMs: world.time.nowMs + forMs + FELT_AFTER_MS });
  world.kubelets.turnOff(name);
  if (deed === "node-gone") world.time.after(random.integer(0, forMs), undefined, () => world.kubelets.forget(name));
  world.time.after(forMs, undefined, () => world.kubelets.turnOn(name));
}
