import { runPeriodically } from "@muster/controller";
import type { Session } from "@muster/store";
import type { WorldChange } from "./adapters/views.ts";
import { makeScan } from "./ownership.ts";
import { sweepSets } from "./sweep.ts";
import { startPasses, type SetPasses } from "./set-passes.ts";
import type { FarmDeps } from "./farm-deps.ts";

export type Farm = {
  /** Owns sets while the session lives. */
  run(session: Session): Promise<void>;
  /** The number of sets that the farm owns. */
  owned(): number;
};

/** The facts that a farm publishes about itself in its session. */
export function buildFarmAttributes(rcSelector: string): { readonly rcSelector: string } {
  return { rcSelector };
}

/** Shares the sets among all live farms: each set has one owner, which runs its passes. */
export function makeFarm(deps: FarmDeps): Farm {
  let passes: SetPasses | undefined;
  return {
    owned: () => passes?.size ?? 0,
    run: async (session) => {
      passes = startPasses(deps.pass, { lead: session, stop: session.signal, resyncMs: deps.resyncMs });
      try {
        await runFarm(deps, session, passes);
      } finally {
        await passes.stop();
      }
    },
  };
}

async function runFarm(deps: FarmDeps, session: Session, passes: SetPasses): Promise<void> {
  const { sets, rollouts } = deps.pass;
  const isStored = async (name: string): Promise<boolean> =>
    (await sets.get(name)) !== undefined || (await rollouts.get(name)) !== undefined;
  const scan = makeScan({ ...deps, isStored }, session, passes);
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
      case "rollout": {
        const names = deps.world.concernedBy(change.name);
        passes.wake(names);
        scan(names);
      }
    }
  };
  using stack = new DisposableStack();
  stack.defer(session.onChange(() => scan()));
  stack.defer(deps.world.onChange(wake));
  stack.defer(
    deps.scheduler.onChange((set) => {
      if (set === undefined) passes.wakeAll();
      else passes.wake([set]);
    }),
  );
  scan();
  await Promise.all([
    runPeriodically({
      // The scan finds changes that no event reports.
      name: "replica-set-scan",
      work: () => {
        scan();
        return Promise.resolve();
      },
      everyMs: deps.resyncMs,
      firstAfterMs: deps.resyncMs,
      stop: session.signal,
    }),
    sweepSets(deps, session),
  ]);
}
