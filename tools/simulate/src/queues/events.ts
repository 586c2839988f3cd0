import type { Random } from "@muster/chaos/random";
import type { Queue } from "@muster/reservation-manager/queue";
import { toWireQueue } from "@muster/reservation-manager/queue-messages";
import { muster } from "@muster/proto";
import { writeKey } from "../sim-bucket.ts";
import { countFault } from "../fault-risks.ts";
import type { World } from "../world.ts";
import { drawEdit } from "./draw-queues.ts";
import { SIZE, type Machines, type SimMachine } from "./machines.ts";

/** The state that events change. */
export type Stage = {
  readonly world: World;
  readonly machines: Machines;
  /** The queues of the seed. */
  readonly forest: readonly Queue[];
  /** The current specifications of the queues. */
  readonly stated: Map<string, Queue>;
  readonly random: Random;
  /** Draws other policies of preemption for a queue. */
  readonly withPolicies: (queue: Queue) => Queue;
};

type EventKind =
  "put" | "edit" | "remove" | "cordon" | "break" | "lose" | "resize" | "repair" | "foreign-comes" | "foreign-goes";

const WEIGHTS: Readonly<Record<EventKind, number>> = {
  put: 4,
  edit: 4,
  remove: 1,
  cordon: 2,
  break: 1,
  lose: 1,
  resize: 1,
  repair: 5,
  "foreign-comes": 3,
  "foreign-goes": 3,
};

/** The events beside requests. Each returns a description for the trace. */
const EVENTS: Readonly<Record<EventKind, (stage: Stage) => string>> = {
  put: (stage) => putQueue(stage, pickQueue(stage)),
  edit: (stage) => putQueue(stage, editedQueue(stage)),
  remove: removeQueue,
  cordon: changeMachine("cordons", (machine) => (machine.cordoned = true)),
  break: changeMachine("breaks", (machine) => (machine.ready = false)),
  lose: changeMachine("loses", loseMachine),
  resize: changeMachine("resizes", resizeMachine),
  repair: changeMachine("repairs", repairMachine),
  "foreign-comes": changeMachine("adds a foreign pod to", addForeignPod),
  "foreign-goes": changeMachine("removes foreign pods from", ({ foreign }) => foreign.clear()),
};

const EVERY_MS = { min: 50, max: 3000 };

/** Runs events until the time, and then restores machines and queues to their initial state. */
export function startEvents(stage: Stage, untilMs: number): void {
  const { world, random } = stage;
  for (const queue of stage.forest) putQueue(stage, queue);
  let count = 0;
  const act = (): void => {
    if (world.time.nowMs >= untilMs) {
      world.trace.note("events", restoreAll(stage));
      return;
    }
    const kind = random.weighted(WEIGHTS);
    count += 1;
    world.trace.note("events", `event ${count}: ${EVENTS[kind](stage)}`);
    world.time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
  };
  world.time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
}

function restoreAll(stage: Stage): string {
  for (const machine of stage.machines.all) {
    repairMachine(machine);
    machine.foreign.clear();
    stage.machines.publish(machine);
  }
  for (const queue of stage.forest) putQueue(stage, queue);
  return "restores all machines and queues";
}

function pickQueue({ forest, random }: Stage): Queue {
  const [first, ...others] = forest;
  if (first === undefined) throw new Error("the seed has no queue");
  return random.pick([first, ...others]);
}

function editedQueue(stage: Stage): Queue {
  const { forest, stated, random } = stage;
  const queue = pickQueue(stage);
  const edited = drawEdit(
    random,
    stated.get(queue.name) ?? queue,
    forest.map(({ name }) => name),
  );
  return stage.withPolicies(edited);
}

function putQueue({ world, stated }: Stage, queue: Queue): string {
  stated.set(queue.name, queue);
  writeKey(world.queueStates, queue.name, muster.reservation.v1.Queue.encode(toWireQueue(queue)).finish());
  return `puts ${describeQueue(queue)}`;
}

function removeQueue(stage: Stage): string {
  const { name } = pickQueue(stage);
  stage.stated.delete(name);
  writeKey(stage.world.queueStates, name, undefined);
  return `removes ${name}`;
}

function describeQueue({ quotas, ...rest }: Queue): string {
  return JSON.stringify({ ...rest, quotas: Object.fromEntries(quotas) });
}

function changeMachine(verb: string, change: (machine: SimMachine, stage: Stage) => unknown): (stage: Stage) => string {
  return (stage) => {
    const [first, ...others] = stage.machines.all;
    if (first === undefined) throw new Error("there is no machine");
    const machine = stage.random.pick([first, ...others]);
    change(machine, stage);
    stage.machines.publish(machine);
    return `${verb} ${machine.name}`;
  };
}

function loseMachine(machine: SimMachine, { world }: Stage): void {
  countFault(world.weather, "node gone");
  machine.exists = false;
  machine.foreign.clear();
}

function resizeMachine(machine: SimMachine, { random }: Stage): void {
  machine.allocatable = { ...SIZE, cpu: random.pick([2, 4, 6, 12]) };
}

/** A machine that was gone joins again. */
function repairMachine(machine: SimMachine): void {
  Object.assign(machine, { ready: true, cordoned: false, exists: true, allocatable: SIZE });
}

function addForeignPod({ exists, foreign }: SimMachine, { world, random }: Stage): void {
  if (!exists) return;
  countFault(world.weather, "foreign pod");
  foreign.set(`foreign-${foreign.size}`, { cpu: random.integer(1, 6), memory: random.integer(0, 6) });
}
