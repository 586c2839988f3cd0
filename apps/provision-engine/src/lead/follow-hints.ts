import type { CallPauses } from "./call-pauses.ts";
import type { Checks } from "./checks.ts";
import type { EngineOps } from "./engine.ts";

type Hinted = {
  readonly checks: Pick<Checks, "soon">;
  readonly pauses: Pick<CallPauses, "granted">;
  readonly wake: (id: string) => void;
};

/** Looks sooner at a lease of which something is heard, whose workload it was made for first: what is not heard is found in its time. Returns the way to stop. */
export function followHints(ops: EngineOps, { checks, pauses, wake }: Hinted): () => void {
  const { crashes, grants, nowNs } = ops;
  const stops = [
    crashes.onExit((id) => wake(holderOf(ops, id))),
    crashes.onGone((id) => {
      const holder = holderOf(ops, id);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
    grants.onGrant((id) => {
      const holder = holderOf(ops, id);
      // Of one that is asked for; an active one may have machines again that it had lost.
      if (ops.holdings.find(holder)?.phase === "PROVISIONING") pauses.granted(holder);
      checks.soon(holder, nowNs());
      wake(holder);
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Of what was made for one lease, the one that has it. */
function holderOf({ holdings }: Pick<EngineOps, "holdings">, id: string): string {
  const passed = new Set([id]);
  for (let holder = id; ;) {
    const heir = holdings.find(holder)?.heir;
    if (heir === undefined || passed.has(heir)) return holder;
    passed.add(heir);
    holder = heir;
  }
}
