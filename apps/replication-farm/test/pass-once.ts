import { makeReconciler, type ReconcileResult } from "@muster/controller";
import { makeSetPasses } from "../src/pass.ts";
import type { SetOwnership, PassDeps } from "../src/pass-deps.ts";

/** The outcome of one round. */
export type PassResult =
  | { readonly kind: "again" | NonNullable<SetOwnership["end"]> }
  | { readonly kind: "settled"; readonly failed: boolean };

/** One round of a pass by the owner of a set. */
export async function runPassOnce(deps: PassDeps, owned: SetOwnership): Promise<PassResult> {
  const passes = makeSetPasses(deps, () => owned);
  const over = new AbortController();
  const acts: (ReconcileResult | "again")[] = [];
  const once: typeof passes = {
    ...passes,
    act: async (...round) => {
      const acted = await passes.act(...round);
      acts.push(acted);
      over.abort();
      return acted;
    },
  };
  await makeReconciler(once)(owned.name, over.signal);
  if (owned.end !== undefined) return { kind: owned.end };
  if (acts.includes("again")) return { kind: "again" };
  return { kind: "settled", failed: acts.some((acted) => acted !== "again" && acted.isFailed === true) };
}
