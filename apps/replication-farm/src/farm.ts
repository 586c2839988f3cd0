import { pause } from "@muster/backoff";
import type { Logger } from "@muster/service";
import type { Session } from "@muster/store";
import type { Pods } from "./adapters/pods.ts";
import type { PoolScheduler } from "./adapters/pool-scheduler.ts";
import type { World, WorldChange } from "./adapters/views.ts";
import type { Child } from "./child.ts";
import { makeLook } from "./ownership.ts";
import type { PassDeps } from "./pass.ts";
import { sweep } from "./sweep.ts";

export type FarmDeps = {
  readonly pass: PassDeps;
  readonly world: World;
  readonly pods: Pick<Pods, "list" | "delete">;
  readonly scheduler: Pick<PoolScheduler, "list" | "deallocate" | "onChange">;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
  /** Takes the installation of each pod of others that the sweep has met. */
  readonly tellLeftAlone: (installations: readonly string[]) => void;
  readonly resyncMs: number;
  readonly sweepMs: number;
};

export type Farm = {
  /** Owns sets for as long as the session lives. */
  run(session: Session): Promise<void>;
  /** How many sets it owns now. */
  owned(): number;
};

/** What a farm tells others of itself. */
export function aboutFarm(rcSelector: string): { readonly rcSelector: string } {
  return { rcSelector };
}

/** Shares the sets with all farms that live: each set has one owner, which makes passes over it. */
export function makeFarm(deps: FarmDeps): Farm {
  const children = new Map<string, Child>();
  return { owned: () => children.size, run: (session) => runFarm(deps, session, children) };
}

async function runFarm(deps: FarmDeps, session: Session, children: Map<string, Child>): Promise<void> {
  const look = makeLook(deps, session, children);
  const wakeAll = (): void => {
    for (const child of children.values()) child.wake();
  };
  const wakeFor = (names: Iterable<string>): void => {
    for (const name of names) children.get(name)?.wake();
  };
  const wake = (change: WorldChange): void => {
    switch (change.kind) {
      case "nodes":
        wakeAll();
        break;
      case "foreign":
        wakeFor(deps.world.setsOf(change.podId).map(({ name }) => name));
        break;
      case "pods":
        wakeFor(deps.world.concernedBy(change.name));
        break;
      case "set":
      case "roll": {
        const names = deps.world.concernedBy(change.name);
        wakeFor(names);
        look(names);
      }
    }
  };
  using stack = new DisposableStack();
  stack.defer(session.onChange(() => look()));
  stack.defer(deps.world.onChange(wake));
  stack.defer(
    deps.scheduler.onChange((set) => {
      if (set === undefined) wakeAll();
      else wakeFor([set]);
    }),
  );
  look();
  const alive = async (): Promise<void> => {
    // For what no change tells.
    while (!session.signal.aborted) {
      await pause(deps.resyncMs, session.signal);
      look();
    }
  };
  try {
    await Promise.all([alive(), sweep(deps, session)]);
  } finally {
    await Promise.all([...children.values()].map((child) => child.stop()));
    children.clear();
  }
}
