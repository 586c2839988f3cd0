import { pause } from "@muster/backoff";
import type { Session } from "@muster/store";
import type { WorldChange } from "./adapters/views.ts";
import { makeLook } from "./ownership.ts";
import { sweep } from "./sweep.ts";
import { startPasses, type SetPasses } from "./set-passes.ts";
import type { FarmDeps } from "./farm-deps.ts";

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
  let passes: SetPasses | undefined;
  return {
    owned: () => passes?.size ?? 0,
    run: async (session) => {
      passes = startPasses(deps.pass, { lead: session, resyncMs: deps.resyncMs });
      try {
        await runFarm(deps, session, passes);
      } finally {
        await passes.stop();
      }
    },
  };
}

async function runFarm(deps: FarmDeps, session: Session, passes: SetPasses): Promise<void> {
  const look = makeLook(deps, session, passes);
  const wake = (change: WorldChange): void => {
    switch (change.kind) {
      case "nodes":
        passes.wakeAll();
        break;
      case "foreign":
        passes.wake(deps.world.setsOf(change.podId).map(({ name }) => name));
        break;
      case "pods":
        passes.wake(deps.world.concernedBy(change.name));
        break;
      case "set":
      case "roll": {
        const names = deps.world.concernedBy(change.name);
        passes.wake(names);
        look(names);
      }
    }
  };
  using stack = new DisposableStack();
  stack.defer(session.onChange(() => look()));
  stack.defer(deps.world.onChange(wake));
  stack.defer(
    deps.scheduler.onChange((set) => {
      if (set === undefined) passes.wakeAll();
      else passes.wake([set]);
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
  await Promise.all([alive(), sweep(deps, session)]);
}
